// The service as an administrator runs it.
#include <sys/stat.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <thread>

#include "support/fault_proxy.hpp"
#include "support/files.hpp"
#include "systemd/host.hpp"

using namespace pgwake::test;

namespace {

std::string settings_for(const std::string& database) {
  return "database = \"" + cluster::shared().conninfo(database) + "\"\n";
}

}  // namespace

TEST_CASE("systemd: two instances serve workers of two databases") {
  auto& db = cluster::shared();
  const auto first_db = db.new_database();
  const auto second_db = db.new_database();
  const instance first("first", settings_for(first_db));
  const instance second("second", settings_for(second_db));
  first.start();
  second.start();
  REQUIRE(first.healthy());
  REQUIRE(second.healthy());
  CHECK_THAT(first.status_text(), Catch::Contains("0 workers, 0 channels"));
  auto a = first.connect();
  auto b = second.connect();
  a.subscribe("orders");
  b.subscribe("orders");
  db.notify("orders", "to the first", first_db);
  db.notify("orders", "to the second", second_db);
  a.expect_wake("orders", "to the first");
  b.expect_wake("orders", "to the second");
  CHECK(eventually(5s, [&] { return first.status_text() == "healthy, 1 workers, 1 channels"; }));

  struct stat socket {};
  REQUIRE(stat(first.socket().c_str(), &socket) == 0);
  CHECK((socket.st_mode & 07777U) == 0660);
  const auto user = command_ok({"id", "-u", "pgwake"});
  CHECK(std::to_string(socket.st_uid) + "\n" == user);
  CHECK(command_ok({"stat", "-c", "%U:%G", "/proc/" + std::to_string(first.pid())}) == "pgwake:pgwake\n");
  const auto status = command({"pgwaked", "status", "--socket", first.socket()});
  CHECK(status.exit_code == 0);
}

TEST_CASE(
    "P1: an instance serves drivers in its folder, with the hub's mode and group, unless it is told not to") {
  auto& db = cluster::shared();
  const auto database = db.new_database();
  const instance hub("drivers", settings_for(database) + "socket_mode = \"0666\"\n");
  const instance closed("closed", settings_for(database) + "front_door = false\n");
  hub.start();
  closed.start();
  REQUIRE(hub.healthy());
  REQUIRE(closed.healthy());
  const auto door = [](const instance& of) {
    return of.socket().substr(0, of.socket().rfind('/')) + "/.s.PGSQL.5432";
  };
  struct stat beside {};
  struct stat own {};
  REQUIRE(stat(door(hub).c_str(), &beside) == 0);
  REQUIRE(stat(hub.socket().c_str(), &own) == 0);
  CHECK(beside.st_mode == own.st_mode);
  CHECK(beside.st_uid == own.st_uid);
  CHECK(beside.st_gid == own.st_gid);
  connection driver("host=/run/pgwake/drivers user=app dbname=" + database);
  driver.exec("LISTEN orders");
  db.notify("orders", "x", database);
  const auto got = driver.next_notification(10s);
  REQUIRE(got);
  CHECK(got->payload == "x");
  const auto look = command({"pgwaked", "doctor", "--config", hub.etc(".toml")});
  CHECK_THAT(look.out, Catch::Contains("a NOTIFY of the server arrived at host=/run/pgwake/drivers"));
  CHECK(stat(door(closed).c_str(), &beside) != 0);
  CHECK_THAT(command_ok({"pgwaked", "config", "--config", closed.etc(".toml")}),
             Catch::Contains("front_door = false  # file " + closed.etc(".toml")));
  hub.stop();
  CHECK_FALSE(std::filesystem::exists(door(hub)));
}

TEST_CASE("case 29: PostgreSQL is down at boot: socket up, READY sent, not healthy, watchdog fed, no exit") {
  const instance hub("nodb", "database = \"host=127.0.0.1 port=" + std::to_string(random_port()) + "\"\n");
  hub.drop_in(hub.unit(), "[Service]\nWatchdogSec=1s\n");
  hub.start();
  const auto pid = hub.pid();
  CHECK(property(hub.unit(), "ActiveState") == "active");
  CHECK(eventually(5s, [&] { return hub.status_text().starts_with("not healthy (connecting)"); }));
  auto worker = hub.connect();
  CHECK_FALSE(worker.expect("status").healthy());
  // Three of the watchdog's periods, during which pings are answered.
  const auto until = clock::now() + 3s;
  for (int id = 1; clock::now() < until; ++id) {
    worker.ping(id);
    REQUIRE(worker.expect("pong").id() == id);
  }
  CHECK(hub.pid() == pid);
  CHECK(property(hub.unit(), "NRestarts") == "0");
}

TEST_CASE("systemd: the watchdog kills a loop that stands still, and a new one serves") {
  auto& db = cluster::shared();
  const auto database = db.new_database();
  const instance hub("watched", settings_for(database));
  hub.drop_in(hub.unit(), "[Service]\nWatchdogSec=2s\nTimeoutAbortSec=2s\nLimitCORE=0\n");
  hub.start();
  REQUIRE(hub.healthy());
  const auto pid = hub.pid();
  auto worker = hub.connect();
  hub.signal(SIGSTOP);
  CHECK(worker.closed(15s));
  REQUIRE(hub.runs_anew(pid));
  CHECK(property(hub.unit(), "NRestarts") == "1");
  CHECK_THAT(journal(hub.unit()), Catch::Contains("Watchdog timeout"));
  REQUIRE(hub.healthy());
  auto next = hub.connect();
  next.subscribe("c");
  db.notify("c", "again", database);
  next.expect_wake("c", "again");
}

TEST_CASE("systemd: a hub that is killed comes back by itself, and again, without end") {
  const instance hub("killed", settings_for(cluster::shared().new_database()));
  hub.drop_in(hub.unit(), "[Service]\nRestartSec=50ms\n");
  hub.start();
  for (int i = 0; i < 8; ++i) {  // systemd's own limit would be 5 in 10 s
    const auto pid = hub.pid();
    hub.signal(SIGKILL);
    REQUIRE(hub.runs_anew(pid));
  }
  CHECK(hub.healthy());
}

TEST_CASE("systemd: a stop drains: workers are told, and have the time that drain_grace gives them") {
  const instance hub("drained", settings_for(cluster::shared().new_database()) + "drain_grace = \"20s\"\n");
  // Shorter than the grace: the hub asks for more by itself.
  hub.drop_in(hub.unit(), "[Service]\nTimeoutStopSec=2s\n");
  hub.start();
  REQUIRE(hub.healthy());
  auto worker = hub.connect();
  worker.subscribe("c");
  command_ok({"systemctl", "stop", "--no-block", hub.unit()});
  REQUIRE(eventually(5s, [&] {
    const auto status = worker.next(1s);
    return status && status->t() == "status" && status->flag("draining");
  }));
  worker.drain(4s);
  CHECK_FALSE(worker.closed(0s));  // beyond TimeoutStopSec
  CHECK(property(hub.unit(), "ActiveState") == "deactivating");
  worker.unsub("c");
  CHECK(worker.closed(5s));
  REQUIRE(eventually(5s, [&] { return property(hub.unit(), "ActiveState") == "inactive"; }));
  CHECK(property(hub.unit(), "Result") == "success");
  CHECK_FALSE(std::filesystem::exists(hub.socket()));
  CHECK(std::filesystem::exists(hub.socket() + ".lock"));  // its folder outlives it
}

TEST_CASE("case 31: a stop during a hung connect, a flood and a re-LISTEN is clean and quick") {
  auto& db = cluster::shared();
  const auto database = db.new_database();
  fault_proxy proxy(db);
  const instance hub("stopped", "database = \"" + proxy.conninfo(database) + "\"\ndrain_grace = \"0s\"\n");
  const auto stops_cleanly = [&] {
    CHECK(time_of([&] { hub.stop(); }) < at_load(2s));
    CHECK(property(hub.unit(), "Result") == "success");
    CHECK(property(hub.unit(), "ExecMainStatus") == "0");
    CHECK_FALSE(std::filesystem::exists(hub.socket()));
  };
  SECTION("a hung connect") {
    proxy.hang_connects();
    hub.start();
    REQUIRE(eventually(5s, [&] { return proxy.open() > 0; }));
    stops_cleanly();
  }
  SECTION("a flood") {
    hub.start();
    REQUIRE(hub.healthy());
    auto worker = hub.connect();
    worker.subscribe("flood");
    std::atomic<bool> go_on{true};
    std::thread publisher([&] {
      auto connection = db.connect(database);
      while (go_on) connection.exec("SELECT pg_notify('flood', n::text) FROM generate_series(1, 5000) n");
    });
    worker.expect("wake");
    stops_cleanly();
    go_on = false;
    publisher.join();
  }
  SECTION("a re-LISTEN") {
    hub.start();
    REQUIRE(hub.healthy());
    auto worker = hub.connect();
    for (int i = 0; i < 200; ++i) worker.sub("c" + std::to_string(i));
    for (int i = 0; i < 200; ++i) worker.expect("ack");
    proxy.hold_answer("LISTEN \"c0\"", 20s, -1);
    proxy.close_all();
    worker.await_health(false);
    REQUIRE(eventually(5s, [&] {
      for (const auto& q : proxy.queries())
        if (q.find("LISTEN \"c0\"") != q.npos && proxy.accepted() > 1) return true;
      return false;
    }));
    stops_cleanly();
  }
}
