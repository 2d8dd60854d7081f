#include <unistd.h>

#include <catch2/catch.hpp>

#include "integration/rig.hpp"
#include "support/sanitizer.hpp"
#include "support/skip.hpp"

// What shows only with time: a clock that jumps, a server that is restarted again and again.

using namespace pgwake::test;
using namespace std::chrono_literals;

namespace {

constexpr auto faketime = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

}  // namespace

TEST_CASE(
    "case 39, U4: the wall clock jumps an hour and back; deadlines, probes and heartbeats do not notice") {
  if (sanitized) SKIP_CASE("sanitizers and libfaketime exclude each other");
  if (access(faketime, R_OK) != 0) SKIP_CASE("libfaketime is not installed: apt-get install libfaketime");
  auto& pg = cluster::shared();
  const temp_dir dir;
  const auto clock_file = dir.path() + "/clock";
  write_file(clock_file, "+0");
  hub_daemon hub({.database = pg.conninfo(),
                  .arguments = {"--probe-interval", "1s", "--probe-timeout", "1s", "--heartbeat", "500ms"},
                  .env = {{"LD_PRELOAD", faketime},
                          {"FAKETIME_TIMESTAMP_FILE", clock_file},
                          {"FAKETIME_NO_CACHE", "1"},
                          {"DONT_FAKE_MONOTONIC", "1"}}});
  auto worker = hub.connect_v1();
  worker.sub("c");
  worker.expect("ack");
  for (const auto* jump : {"+1h", "-1h", "+0"}) {
    write_file(clock_file, jump);
    // Two heartbeats' time and a probe's: what would have gone off by the wall clock would have by now.
    int heartbeats = 0;
    const auto until = clock::now() + 2500ms;
    while (const auto frame = worker.next(std::chrono::duration_cast<milliseconds>(until - clock::now()))) {
      REQUIRE(frame->t() == "status");
      CHECK(frame->healthy());
      ++heartbeats;
    }
    INFO(jump);
    CHECK(heartbeats >= 2);
    CHECK(heartbeats <= 7);
    pg.notify("c", jump);
    CHECK(worker.expect("wake").p() == jump);
  }
  CHECK(hub.log().find("upstream lost") == std::string::npos);
  // The jumps were real: the log's own clock shows one.
  write_file(clock_file, "+1h");
  CHECK(hub.stop() == 0);
  const auto log = hub.log();
  const auto hour = std::string("time=2026-01-01T00").size();
  const auto last_line = log.rfind('\n', log.size() - 2) + 1;
  CHECK(log.substr(0, hour) != log.substr(last_line, hour));
}

TEST_CASE("G1, U5: twenty restarts of the server leave one backend, no descriptor and no memory behind") {
  cluster pg;
  hub_daemon hub({.database = pg.conninfo()});
  auto worker = hub.connect_v1();
  worker.sub("c");
  worker.expect("ack");
  int descriptors = 0;
  long memory = 0;
  for (int round = 0; round < 20; ++round) {
    pg.restart(round % 2 == 0 ? stop_mode::fast : stop_mode::immediate);
    CHECK(worker.expect("wake", 15s).gap() == "reconnect");
    const auto text = std::to_string(round);
    pg.notify("c", text);
    CHECK(worker.expect("wake").p() == text);
    if (round == 4) {  // what is made once has been made by now
      descriptors = hub.child().descriptor_count();
      memory = hub.child().rss_kib();
    }
  }
  CHECK(hub.child().descriptor_count() <= descriptors + 2);
  if (!sanitized) CHECK(hub.child().rss_kib() <= memory + 2048);
  CHECK(pg.exec("SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'pgwaked@%'").size() == 1);
}
