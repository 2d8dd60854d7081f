#include <catch2/catch.hpp>

#include <algorithm>
#include <thread>

#include "integration/rig.hpp"
#include "support/pgbouncer.hpp"
#include "support/sanitizer.hpp"
#include "support/worker_pool.hpp"

using namespace pgwake::test;

namespace {

// Terminates the hub's session and waits until `worker` was told of the gap on `channel`.
void lose_and_regain(rig& r, raw_worker& worker, const std::string& channel, milliseconds patience = 5s) {
  REQUIRE_EVENTUALLY(r.terminate(), 5s);
  CHECK(worker.expect("wake", channel, patience).gap() == "reconnect");
}

std::string burst_of_subs(int count) {
  std::string burst;
  for (int i = 0; i < count; ++i) burst += frame_of(R"({"t":"sub","q":"c)" + std::to_string(i) + "\"}");
  return burst;
}

}  // namespace

TEST_CASE("U2: while a connection attempt hangs workers are answered") {
  rig r({.through_proxy = true});
  auto worker = r.worker();
  worker.subscribe("c");
  r.proxy().hang_connects();
  r.proxy().reset_all();
  worker.await_health(false);
  REQUIRE_EVENTUALLY(r.proxy().accepted() >= 2, 5s);
  for (int i = 0; i < 20; ++i) {
    CHECK(time_of([&] { CHECK(worker.until_pong().empty()); }) < at_load(100ms));
    std::this_thread::sleep_for(10ms);
  }
  CHECK(r.proxy().open() == 1);  // an attempt starts only when the former has returned
  r.proxy().hang_connects(false);
  r.proxy().reset_all();
  CHECK(worker.expect("wake", "c", 10s).gap() == "reconnect");
}

TEST_CASE("U4: a session that has fallen silent is found out, and replaced") {
  rig r({.arguments = {"--probe-interval", "300ms", "--probe-timeout", "2s"}, .through_proxy = true});
  auto worker = r.worker();
  worker.subscribe("c");
  CHECK(worker.drain(1500ms).empty());  // idle, and alive: nothing happens
  CHECK(r.proxy().accepted() == 1);
  r.proxy().black_hole();
  worker.await_health(false, 5s);
  r.proxy().end_black_hole();
  CHECK(worker.expect("wake", "c", 10s).gap() == "reconnect");
  REQUIRE_EVENTUALLY(r.census() == 1, 5s);
}

TEST_CASE("U3: a session that does not hear its own NOTIFY is deaf, never serves, and is replaced") {
  rig r({.arguments = {"--probe-timeout", "500ms"}, .through_proxy = true});
  auto worker = r.worker();
  worker.subscribe("c");
  r.proxy().deafen();
  r.proxy().reset_all();
  worker.await_health(false);
  CHECK(worker.drain(2s).empty());
  REQUIRE_EVENTUALLY(r.proxy().accepted() >= 3, 10s);
  auto fresh = r.worker();
  const auto status = fresh.expect("status");
  CHECK_FALSE(status.healthy());
  CHECK_FALSE(status.string("reason").empty());
  r.proxy().deafen(false);
  CHECK(worker.expect("wake", "c", 10s).gap() == "reconnect");
}

TEST_CASE("U4: a session that lost its LISTENs, or is another one behind the same socket, is found out") {
  rig r({.arguments = {"--probe-interval", "500ms", "--probe-timeout", "500ms"}, .through_proxy = true});
  auto worker = r.worker();
  worker.subscribe("old");
  r.proxy().swallow_query("LISTEN \"lost\"");
  worker.sub("lost");
  worker.expect("ack", "lost");  // what else could the hub believe
  const auto first = worker.expect("wake", 5s);
  const auto second = worker.expect("wake", 5s);
  CHECK(first.gap() == "reconnect");
  CHECK(second.gap() == "reconnect");
  r.notify("lost", "x");
  worker.expect_wake("lost", "x");
}

TEST_CASE("U4, case 21: a command whose answer is slow stops neither wakes nor workers, and is no death") {
  rig r({.through_proxy = true});
  auto worker = r.worker();
  auto other = r.worker();
  worker.subscribe("c");
  const auto held = std::min<milliseconds>(at_load(3s), 12s);  // after 20 s it would be a death
  r.proxy().hold_query("LISTEN \"slow\"", held);
  worker.sub("slow");
  CHECK(other.until_pong().empty());
  r.sql("SELECT pg_notify('c', n::text) FROM generate_series(1, 10000) n");
  const auto waited = time_of([&] {
    for (int i = 1; i <= 10000; ++i) worker.expect_wake("c", std::to_string(i));
  });
  CHECK(waited < at_load(2s));
  CHECK(time_of([&] { CHECK(other.until_pong().empty()); }) < at_load(100ms));
  worker.expect("ack", "slow", held + 6s);  // the load may have fallen since
  CHECK(r.proxy().accepted() == 1);
}

TEST_CASE(
    "U5, case 1: twenty terminations, each noticed at once and healed soon, one backend, nobody missed") {
  rig r;
  std::vector<raw_worker> workers;
  const std::vector<std::string> channels = {"q1", "q1", "q1", "q2", "q3"};
  for (const auto& channel : channels) {
    workers.push_back(r.worker());
    workers.back().subscribe(channel);
  }
  auto watcher = r.worker();
  for (int round = 0; round < 20; ++round) {
    INFO("round " << round);
    REQUIRE(r.terminate());
    watcher.await_health(false, at_load(1s));
    watcher.await_health(true, 3s);
    REQUIRE_EVENTUALLY(r.census() == 1, 3s);
    for (const char* channel : {"q1", "q2", "q3"}) r.notify(channel, std::to_string(round));
    for (std::size_t i = 0; i < workers.size(); ++i) {
      CHECK(workers[i].expect("wake", channels[i]).gap() == "reconnect");
      workers[i].expect_wake(channels[i], std::to_string(round));
    }
  }
}

TEST_CASE("U5, case 2: a long outage costs little, and the next one starts over") {
  rig r({.through_proxy = true});
  auto worker = r.worker();
  worker.subscribe("c");
  std::this_thread::sleep_for(100ms);
  const auto attempts = r.proxy().accepted();
  const auto lines = count_of(r.hub().log(), "\n");
  const auto cpu = r.hub().child().cpu_time();
  r.proxy().cut_after(0);  // each attempt is counted, and fails
  r.proxy().reset_all();
  // In 60 s at most 35 attempts and 20 lines; most of them fall into the first seconds.
  CHECK(worker.drain(in_full() ? 60s : 12s).empty());
  CHECK(r.proxy().accepted() - attempts <= (in_full() ? 35 : 16));
  CHECK(r.proxy().accepted() - attempts >= 4);
  CHECK(count_of(r.hub().log(), "\n") - lines <= 20);
  CHECK(r.hub().child().cpu_time() - cpu < (in_full() ? 1000ms : 300ms));
  r.proxy().end_limits();
  CHECK(worker.expect("wake", "c", 5s).gap() == "reconnect");
  r.proxy().close_all();
  CHECK(worker.expect("wake", "c", 3s).gap() == "reconnect");
}

TEST_CASE("U5, case 9: many lost sessions and hung logins leave nothing behind") {
  rig r({.through_proxy = true});
  auto worker = r.worker();
  worker.subscribe("c");
  lose_and_regain(r, worker, "c");
  std::this_thread::sleep_for(100ms);
  const int descriptors = r.hub().child().descriptor_count();
  const long memory = r.hub().child().rss_kib();
  for (int i = 0; i < (in_full() ? 199 : 15); ++i) lose_and_regain(r, worker, "c");
  for (int i = 0; i < (in_full() ? 50 : 5); ++i) {
    const auto before = r.proxy().accepted();
    r.proxy().stall_after(10);
    r.terminate();
    REQUIRE_EVENTUALLY(r.proxy().accepted() > before, 5s);
    std::this_thread::sleep_for(50ms);
    r.proxy().end_limits();
    r.proxy().reset_all();
    CHECK(worker.expect("wake", "c", 10s).gap() == "reconnect");
  }
  REQUIRE_EVENTUALLY(std::abs(r.hub().child().descriptor_count() - descriptors) <= 2, 5s);
  if (!sanitized) CHECK(r.hub().child().rss_kib() - memory < 2048);
  REQUIRE_EVENTUALLY(r.census() == 1, 3s);
}

TEST_CASE("U5, case 11: with all slots taken the hub stays up, backs off, and heals") {
  cluster small(
      {.settings = {
           {"max_connections", "10"}, {"superuser_reserved_connections", "5"}, {"max_wal_senders", "0"}}});
  small.exec("CREATE ROLE app LOGIN");
  std::vector<connection> taken;
  CHECK_THROWS_AS(
      [&] {
        for (int i = 0; i < 10; ++i) taken.push_back(small.connect("postgres", "app"));
      }(),
      sql_error);
  hub_daemon hub({.database = small.conninfo("postgres", "app"), .until = readiness::accepting});
  auto worker = hub.connect_v1();
  worker.sub("c");
  CHECK(worker.drain(1s).empty());
  CHECK(hub.running());
  taken.clear();
  worker.expect("ack", "c", 10s);
  small.notify("c");
  worker.expect_wake("c");
}

TEST_CASE("U6: 10,000 channels are listened to again in at most 12 round trips") {
  rig r({.through_proxy = true});
  auto worker = r.worker();
  const int channels = 10000;
  worker.send_raw(burst_of_subs(channels));
  for (int i = 0; i < channels; ++i) worker.expect("ack", 20s);
  r.proxy().forget_queries();
  REQUIRE(r.terminate());
  for (int i = 0; i < channels; ++i) CHECK(worker.expect("wake", 10s).gap() == "reconnect");
  std::size_t with_listen = 0;
  for (const auto& query : r.proxy().queries()) with_listen += query.find("LISTEN \"c") != std::string::npos;
  CHECK(with_listen <= 12);
}

TEST_CASE(
    "G1, G3, case 33: 10,000 channels, two terminations in a row: all are active again, then health "
    "returns") {
  rig r;
  auto worker = r.worker();
  const int channels = 10000;
  worker.send_raw(burst_of_subs(channels));
  for (int i = 0; i < channels; ++i) worker.expect("ack", 20s);
  REQUIRE(r.terminate());
  std::this_thread::sleep_for(200ms);
  REQUIRE_EVENTUALLY(r.terminate(), 5s);
  const std::string ended = r.pg().value("SELECT clock_timestamp()");
  const auto healing = time_of([&] {
    // A third session, then health: an earlier one's health must not count.
    REQUIRE_EVENTUALLY(r.pg().value("SELECT count(*) FROM pg_stat_activity WHERE datname = '" + r.database() +
                                    "' AND application_name LIKE 'pgwaked@%' AND backend_start > " + "'" +
                                    ended + "'") == "1",
                       5s);
    CHECK(r.hub().await_health());
  });
  CHECK(healing < at_load(4s));
  r.sql("SELECT pg_notify('c' || n, 'x') FROM generate_series(0, 9999) n");
  std::vector<int> gaps(channels);
  std::vector<int> wakes(channels);
  const auto deadline = deadline_in(15s);
  for (int left = channels; left > 0;) {
    INFO(left << " wakes to come, gaps " << std::count(gaps.begin(), gaps.end(), 0) << " missing");
    const auto next = worker.next();
    REQUIRE(clock::now() < deadline);
    if (!next) continue;
    if (next->t() == "status") continue;
    const auto& got = *next;
    REQUIRE(got.t() == "wake");
    const auto number = static_cast<std::size_t>(std::stoi(got.q().substr(1)));
    if (got.gap()) {
      ++gaps[number];
    } else {
      ++wakes[number];
      --left;
    }
  }
  CHECK(std::all_of(gaps.begin(), gaps.end(), [](int n) { return n == 1 || n == 2; }));
  CHECK(std::all_of(wakes.begin(), wakes.end(), [](int n) { return n == 1; }));
}

TEST_CASE("U7: an outage is told within a second of its end or beginning, with its reason") {
  rig r({.through_proxy = true});
  auto modern = r.worker();
  auto old = r.v0();
  old.sub("c");
  r.proxy().refuse();
  r.proxy().reset_all();
  CHECK(time_of([&] { modern.await_health(false); }) < at_load(1s));
  old.await_health(false, 3s);
  auto fresh = r.worker();
  auto status = fresh.expect("status");
  CHECK_FALSE(status.healthy());
  CHECK_FALSE(status.string("reason").empty());
  r.proxy().refuse(false);
  modern.await_health(true, 6s);
}

TEST_CASE("U8, case 11: CONNECTION LIMIT 1 suffices, through reconnects too") {
  auto& pg = cluster::shared();
  pg.exec("CREATE ROLE single LOGIN CONNECTION LIMIT 1");
  hub_daemon hub({.database = pg.conninfo("postgres", "single")});
  auto worker = hub.connect_v1();
  worker.subscribe("c");
  for (int i = 0; i < 5; ++i) {
    REQUIRE(
        pg.value("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'single'") ==
        "1");
    CHECK(worker.expect("wake", "c", 10s).gap() == "reconnect");
    CHECK(pg.value("SELECT count(*) FROM pg_stat_activity WHERE usename = 'single'") == "1");
  }
  CHECK(pg.value("SELECT count(*) FROM pg_stat_activity WHERE usename = 'single'") == "1");
}

TEST_CASE("D1, case 14: over TLS the end of a burst arrives with no later traffic") {
  cluster secure({.tls = true});
  hub_daemon hub({.database = secure.conninfo() + " sslmode=verify-full sslrootcert=" + secure.ca_file()});
  auto worker = hub.connect_v1();
  worker.subscribe("c");
  auto publisher = secure.connect();
  for (int round = 0; round < 3; ++round) {
    publisher.exec("SELECT pg_notify('c', n || repeat('x', 7000)) FROM generate_series(1, 500) n");
    const auto waited = time_of([&] {
      for (int i = 0; i < 500; ++i) worker.expect("wake", "c");
    });
    CHECK(waited < at_load(3s));  // the next probe is due after 15 s
  }
  CHECK(secure.value("SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE "
                     "application_name LIKE 'pgwaked@%'") == "t");
}
