#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <atomic>
#include <cstring>
#include <thread>

#include "integration/rig.hpp"
#include "support/background.hpp"
#include "support/sanitizer.hpp"
#include "support/worker_pool.hpp"

using namespace pgwake::test;

namespace {

mode_t mode_of(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 ? info.st_mode : 0;
}

// A socket file that nothing listens to.
void leave_stale_socket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  close(fd);
}

hub_options on_socket(const std::string& path, readiness until = readiness::accepting) {
  return {.database = cluster::shared().conninfo(), .until = until, .socket = path};
}

run_result run_hub(const std::string& socket, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {"run", "--database", cluster::shared().conninfo(), "--socket",
                                        socket};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run(pgwaked_command(arguments), 10s);
}

}  // namespace

TEST_CASE("K1: the socket has its mode from its first instant, whatever the umask (case 26)") {
  const temp_dir directory;
  const std::string path = directory / "s";
  std::atomic<mode_t> seen = 0;
  background watching([&](const auto& stop) {
    while (!stop) seen = seen | (mode_of(path) & 0777);
  });
  auto options = on_socket(path);
  options.mask = 0;
  SECTION("default") {
    {
      const hub_daemon hub(options);
      CHECK((mode_of(path) & 0777) == 0660);
      REQUIRE_EVENTUALLY(seen != 0, 5s);
    }
    watching.stop();
    CHECK(seen == 0660);
  }
  SECTION("configured") {
    options.arguments = {"--socket-mode", "0600"};
    {
      const hub_daemon hub(options);
      CHECK((mode_of(path) & 0777) == 0600);
      REQUIRE_EVENTUALLY(seen != 0, 5s);
    }
    watching.stop();
    CHECK(seen == 0600);
  }
}

TEST_CASE("K1: the hub's own channels are closed to workers, whatever `allow` says") {
  const bool listed = GENERATE(true, false);
  rig r({.arguments = listed ? std::vector<std::string>{"--allow", "* *"} : std::vector<std::string>{}});
  auto worker = r.worker();
  for (const char* channel : {"pgwake.fence", "pgwake.", "pgwake.anything"}) {
    worker.sub(channel);
    CHECK(worker.expect("nack", channel).code() == "forbidden");
  }
  worker.subscribe("pgwake");
  worker.subscribe("PGWAKE.fence");
}

TEST_CASE("K1: the allow-list closes channels") {
  rig r({.arguments = {"--allow", "uid:" + std::to_string(getuid()) + " public.*,exact"}});
  auto worker = r.worker();
  worker.subscribe("public.news");
  worker.subscribe("exact");
  worker.sub("private");
  CHECK(worker.expect("nack", "private").code() == "forbidden");
  r.notify("private", "x");
  r.notify("public.news", "x");
  worker.expect_wake("public.news", "x");
}

TEST_CASE("K1: a worker outside the allow-list is refused") {
  rig r({.arguments = {"--allow", "uid:" + std::to_string(getuid() + 1) + " *"},
         .until = readiness::accepting});
  auto worker = r.v0();
  worker.send_json(R"({"t":"hello","v":1})");
  CHECK(worker.expect("bye").code() == "forbidden");
  CHECK(worker.closed());
}

TEST_CASE("K2: a stale socket is replaced; a stopping hub removes its own and no other's") {
  const temp_dir directory;
  const std::string path = directory / "s";
  leave_stale_socket(path);
  hub_daemon hub(on_socket(path));
  SECTION("its own") {
    CHECK(hub.stop() == 0);
    CHECK(mode_of(path) == 0);
  }
  SECTION("another's") {
    // What is there now is not what it bound.
    hub.child().signal(SIGSTOP);
    REQUIRE(unlink(path.c_str()) == 0);
    write_file(path, "a stranger's");
    hub.child().signal(SIGTERM);
    hub.child().signal(SIGCONT);
    CHECK(hub.child().wait(10s) == 0);
    CHECK(read_file(path) == "a stranger's");
  }
}

TEST_CASE("K2: beside a live hub a second one exits with 1 and touches nothing") {
  const temp_dir directory;
  const std::string path = directory / "s";
  hub_daemon hub(on_socket(path));
  struct stat before {};
  REQUIRE(lstat(path.c_str(), &before) == 0);
  const auto second = run_hub(path);
  CHECK(second.exit_code == 1);
  CHECK(second.err.find(path) != std::string::npos);
  struct stat after {};
  REQUIRE(lstat(path.c_str(), &after) == 0);
  CHECK(before.st_ino == after.st_ino);
  CHECK(hub.await_health());
}

TEST_CASE("K2: a file, a directory or a symbolic link at the path is refused and left alone") {
  const temp_dir directory;
  const std::string path = directory / "s";
  SECTION("file") {
    write_file(path, "precious");
    CHECK(run_hub(path).exit_code == 1);
    CHECK(read_file(path) == "precious");
  }
  SECTION("directory") {
    REQUIRE(mkdir(path.c_str(), 0755) == 0);
    CHECK(run_hub(path).exit_code == 1);
    CHECK(S_ISDIR(mode_of(path)));
  }
  SECTION("symbolic link") {
    const std::string target = directory / "target";
    leave_stale_socket(target);
    REQUIRE(symlink(target.c_str(), path.c_str()) == 0);
    CHECK(run_hub(path).exit_code == 1);
    CHECK(S_ISLNK(mode_of(path)));
    CHECK(S_ISSOCK(mode_of(target)));
  }
  SECTION("missing directory") {
    const auto result = run_hub(directory / "missing/s");
    CHECK(result.exit_code == 1);
    CHECK(result.err.find("missing") != std::string::npos);
  }
}

TEST_CASE("K2, case 43: of two hubs that start on a stale socket at one instant exactly one serves") {
  const temp_dir directory;
  const std::string path = directory / "s";
  // Nothing answers at that port: the socket is served all the same, and no database is troubled.
  const std::string database = "host=127.0.0.1 port=" + std::to_string(random_port()) + " dbname=x";
  for (int round = 0; round < 100; ++round) {
    INFO("round " << round);
    if (mode_of(path) == 0) leave_stale_socket(path);
    std::vector<process> hubs;
    for (int i = 0; i < 2; ++i)
      hubs.emplace_back(
          pgwaked_command({"run", "--database", database, "--socket", path, "--drain-grace", "0s"}));
    REQUIRE_EVENTUALLY(!hubs[0].running() || !hubs[1].running(), 10s);
    const std::size_t loser = hubs[0].running() ? 1 : 0;
    process& winner = hubs[1 - loser];
    CHECK(hubs[loser].wait(1s) == 1);
    REQUIRE_EVENTUALLY(can_connect(path), 5s);
    CHECK(winner.running());
    // Every other time it leaves a stale socket for the next.
    winner.signal(round % 2 == 0 ? SIGKILL : SIGTERM);
    REQUIRE(winner.wait(10s));
  }
}

TEST_CASE("K2, case 27: a hub whose socket file is removed binds again, and its workers never notice") {
  rig r;
  auto worker = r.worker();
  worker.subscribe("c");
  REQUIRE(unlink(r.hub().socket().c_str()) == 0);
  REQUIRE_EVENTUALLY(can_connect(r.hub().socket()), 10s);
  CHECK((mode_of(r.hub().socket()) & 0777) == 0660);
  auto fresh = r.worker();
  fresh.subscribe("c");
  r.notify("c", "x");
  worker.expect_wake("c", "x");
  fresh.expect_wake("c", "x");
}

TEST_CASE("K3: 107 bytes of path work, 108 are an error before anything is created") {
  const temp_dir directory;
  const std::string base = directory.path() + "/";
  const std::string fits = base + std::string(107 - base.size(), 's');
  const hub_daemon hub(on_socket(fits));
  CHECK(can_connect(fits));

  const auto result = run_hub(fits + "x");
  CHECK((result.exit_code == 1 || result.exit_code == 2));
  CHECK(result.err.find("107") != std::string::npos);
  CHECK(mode_of(fits + "x") == 0);
  CHECK(mode_of(fits + "x.lock") == 0);
}

TEST_CASE("K4: one worker too many is refused with a word, and there is room once another leaves") {
  rig r({.arguments = {"--max-workers", "3"}});
  std::vector<raw_worker> full;
  REQUIRE_EVENTUALLY(
      [&] {  // the rig's own probe may still be on its way out
        full.clear();
        try {
          for (int i = 0; i < 3; ++i) full.push_back(r.worker());
          return true;
        } catch (const std::runtime_error&) {
          return false;
        }
      }(),
      5s);
  for (int i = 0; i < 3; ++i) full[0].until_pong();  // nothing else is on its way that would wake the hub
  auto refused = r.v0();                             // and says nothing
  CHECK(refused.expect("bye").code() == "limit");
  CHECK(refused.closed());
  full[0].subscribe("c");
  full[2].close();
  REQUIRE_EVENTUALLY(
      [&] {
        try {
          r.worker().subscribe("c");
          return true;
        } catch (const std::runtime_error&) {
          return false;
        }
      }(),
      5s);
}

TEST_CASE("K4: one channel too many is nacked; channels that only linger make room") {
  rig r({.arguments = {"--max-channels", "5"}});
  auto worker = r.worker();
  for (int i = 0; i < 5; ++i) worker.subscribe("c" + std::to_string(i));
  worker.sub("c5");
  CHECK(worker.expect("nack", "c5").code() == "limit");
  worker.subscribe("c4");
  worker.unsub("c0");
  worker.subscribe("c6");
  r.notify("c6");
  worker.expect_wake("c6");
}

TEST_CASE(
    "K4, case 19: frames begun and not finished end by their deadline, and cost what was sent of them") {
  rig r({.arguments = {"--frame-deadline", "1s"}});
  auto other = r.worker();
  const long before = r.hub().child().rss_kib();
  std::vector<raw_worker> pending;
  for (int i = 0; i < 200; ++i) {
    pending.push_back(r.v0());
    pending.back().send_raw(frame_of(std::string(65536, ' ')).substr(0, 104));
  }
  CHECK(time_of([&] { other.subscribe("c"); }) < at_load(500ms));  // half of their deadline
  if (!sanitized) CHECK(r.hub().child().rss_kib() - before < 6000);
  for (auto& one : pending) CHECK(one.closed(4s));
  r.notify("c");
  other.expect_wake("c");
}

TEST_CASE("K5, case 24: out of descriptors the hub stays calm, serves whom it has, and reconnects") {
  const bool counted_on = GENERATE(true, false);
  rig plain;  // only for its database
  hub_options options{.database = cluster::shared().conninfo(plain.database()), .max_descriptors = 64};
  // Against max_workers, which follows from the limit; or out of the blue, as others hold most of them.
  if (!counted_on)
    for (int number = 20; number < 48; ++number) options.descriptors.emplace_back(0, number);
  hub_daemon hub(options);
  auto worker = hub.connect_v1();
  worker.subscribe("c");
  std::vector<raw_worker> crowd;
  for (int i = 0; i < 200; ++i) crowd.push_back(hub.connect());
  worker.until_pong();
  const auto before = hub.child().cpu_time();
  const auto lines = count_of(hub.log(), "\n");
  CHECK(worker.drain(2s).empty());
  CHECK(hub.child().cpu_time() - before <= 100ms);
  // Eight had waited in the places for operators, and were none.
  CHECK(count_of(hub.log(), "\n") - lines <= 3 + 8);
  plain.notify("c", "x");
  worker.expect_wake("c", "x");
  plain.hub().kill();
  REQUIRE_EVENTUALLY(plain.census() == 1, 5s);
  REQUIRE(plain.terminate());
  CHECK(worker.expect("wake", "c", 10s).gap() == "reconnect");
  plain.notify("c", "y");
  worker.expect_wake("c", "y");
  INFO(hub.log());
  CHECK(hub.logs("what_to_do="));
  if (!counted_on) CHECK(hub.logs("accepting paused"));
  crowd.clear();
  REQUIRE_EVENTUALLY(
      [&] {
        try {
          hub.connect_v1().subscribe("c");
          return true;
        } catch (const std::runtime_error&) {
          return false;
        }
      }(),
      10s);
}

TEST_CASE("case 23: the hub sees at once that a worker has gone") {
  rig r({.arguments = {"--unlisten-linger", "0s"}, .through_proxy = true});
  {
    auto worker = r.worker();
    worker.subscribe("c");
  }
  REQUIRE_EVENTUALLY(r.queries("UNLISTEN").size() == 1, 3s);
}
