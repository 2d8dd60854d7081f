// Socket activation: systemd holds the socket, the hub comes and goes.
#include <sys/stat.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <thread>

#include "support/files.hpp"
#include "systemd/host.hpp"

using namespace pgwake::test;

namespace {

std::string settings_for(const std::string& database) {
  return "drain_grace = \"1s\"\ndatabase = \"" + cluster::shared().conninfo(database) + "\"\n";
}

}  // namespace

TEST_CASE("systemd: socket activation: the first worker starts the hub") {
  auto& db = cluster::shared();
  const auto database = db.new_database();
  const instance hub("lazy", settings_for(database));
  command_ok({"systemctl", "start", hub.socket_unit()});
  CHECK(property(hub.unit(), "ActiveState") == "inactive");
  auto worker = hub.connect();
  worker.subscribe("c", 10s);
  db.notify("c", "hello", database);
  worker.expect_wake("c", "hello");
  CHECK(property(hub.unit(), "ActiveState") == "active");
  struct stat socket {};
  REQUIRE(stat(hub.socket().c_str(), &socket) == 0);
  CHECK((socket.st_mode & 07777U) == 0660);
  CHECK(command_ok({"stat", "-c", "%U:%G", hub.socket()}) == "pgwake:pgwake\n");
}

TEST_CASE("systemd: socket activation holds connecting workers through restarts") {
  auto& db = cluster::shared();
  const auto database = db.new_database();
  const instance hub("held", settings_for(database));
  command_ok({"systemctl", "start", hub.socket_unit()});
  hub.start();
  REQUIRE(hub.healthy());
  struct stat before {};
  REQUIRE(stat(hub.socket().c_str(), &before) == 0);

  // Workers that come, subscribe and go all the time, under a stream of notifications. To connect must never
  // fail; a conversation may be cut by the stop, as its `bye` or end of file tells.
  std::atomic<bool> go_on{true};
  std::atomic<int> refused{0};
  std::atomic<int> acked{0};
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    auto connection = db.connect(database);
    while (go_on) connection.notify("c", "tick");
  });
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      while (go_on) {
        int fd = -1;
        try {
          raw_worker worker(hub.socket());
          fd = worker.fd();
          worker.hello();
          worker.subscribe("c" + std::to_string(i), 15s);
          ++acked;
        } catch (const std::exception&) {
          if (fd < 0) ++refused;
        }
      }
    });
  for (int i = 0; i < 4; ++i) {
    const auto pid = hub.pid();
    const auto acked_before = acked.load();
    command_ok({"systemctl", "restart", hub.unit()});
    CHECK(hub.pid() != pid);
    CHECK(eventually(10s, [&] { return acked > acked_before + 8; }));
  }
  go_on = false;
  for (auto& t : threads) t.join();
  CHECK(refused == 0);
  struct stat after {};
  REQUIRE(stat(hub.socket().c_str(), &after) == 0);
  CHECK(after.st_ino == before.st_ino);  // never bound anew
}

TEST_CASE("P18: systemd holds the front door, too: drivers that connect during a restart wait") {
  auto& db = cluster::shared();
  const auto database = db.new_database();
  const instance hub("doors", settings_for(database));
  command_ok({"systemctl", "start", hub.socket_unit()});
  hub.start();
  REQUIRE(hub.healthy());
  const std::string door = "/run/pgwake/doors/.s.PGSQL.5432";
  CHECK(command_ok({"stat", "-c", "%a %U:%G", door}) == "660 pgwake:pgwake\n");
  CHECK_THAT(journal(hub.unit()), !Catch::Contains("front door shut") && !Catch::Contains("not used"));
  struct stat before {};
  REQUIRE(stat(door.c_str(), &before) == 0);

  // Whoever is with the hub when it stops is closed; to connect must never find nobody.
  const auto conninfo = "host=/run/pgwake/doors dbname=" + database + " user=app connect_timeout=20";
  std::atomic<bool> go_on{true};
  std::atomic<int> nobody{0};
  std::atomic<int> listened{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      while (go_on) try {
          connection driver(conninfo);
          driver.exec("LISTEN c");
          ++listened;
        } catch (const std::exception& e) {
          const std::string why = e.what();
          for (const char* sign : {"No such file", "refused", "timeout"})
            if (why.find(sign) != why.npos) ++nobody;
        }
    });
  for (int i = 0; i < 3; ++i) {
    const auto pid = hub.pid();
    const auto before_restart = listened.load();
    command_ok({"systemctl", "restart", hub.unit()});
    CHECK(hub.pid() != pid);
    CHECK(eventually(10s, [&] { return listened > before_restart + 6; }));
  }
  go_on = false;
  for (auto& t : threads) t.join();
  CHECK(nobody == 0);
  struct stat after {};
  REQUIRE(stat(door.c_str(), &after) == 0);
  CHECK(after.st_ino == before.st_ino);
  // A driver waits for a hub that is down, and its connecting starts it.
  hub.stop();
  connection driver(conninfo);
  driver.exec("LISTEN c");
  db.notify("c", "hello", database);
  CHECK(driver.next_notification(10s).value_or(notification{}).payload == "hello");
}

TEST_CASE("P18: with front_door = false the socket unit's front door sends drivers on to the server") {
  auto& db = cluster::shared();
  const auto database = db.new_database();
  const instance hub("shut", settings_for(database) + "front_door = false\n");
  command_ok({"systemctl", "start", hub.socket_unit()});
  hub.start();
  REQUIRE(hub.healthy());
  connection driver("host=/run/pgwake/shut,127.0.0.1 port=5432," + std::to_string(db.port()) +
                    " dbname=" + database + " user=postgres connect_timeout=20");
  CHECK(driver.value("SELECT count(*) FROM pg_catalog.pg_class WHERE false") == "0");
  CHECK(hub.logs("front door shut"));
  CHECK_THAT(journal(hub.unit()),
             Catch::Contains("event=\"front door shut\"") && Catch::Contains("front_door is false"));
  // Where the unit holds the hub's socket alone, the hub holds the front door's itself.
  hub.settings(settings_for(database));
  hub.drop_in(hub.socket_unit(), "[Socket]\nListenStream=\nListenStream=" + hub.socket() + "\n");
  command_ok({"systemctl", "stop", hub.unit(), hub.socket_unit()});
  command_ok({"systemctl", "start", hub.socket_unit(), hub.unit()});
  REQUIRE(hub.healthy());
  connection("host=/run/pgwake/shut dbname=" + database + " user=app connect_timeout=20").exec("LISTEN c");
}

TEST_CASE("systemd: a worker that connects while the hub is stopped waits, and is served by the next one") {
  const instance hub("waiting", settings_for(cluster::shared().new_database()));
  hub.drop_in(hub.unit(), "[Service]\nRestartSec=1500ms\n");
  command_ok({"systemctl", "start", hub.socket_unit()});
  hub.start();
  REQUIRE(hub.healthy());
  hub.signal(SIGKILL);
  REQUIRE(eventually(5s, [&] { return property(hub.unit(), "SubState") == "auto-restart"; }));
  raw_worker worker(hub.socket());
  worker.send_json(R"({"t":"hello","v":1})");
  CHECK(worker.expect("welcome", 10s).t() == "welcome");
}

TEST_CASE("case 28: a passed descriptor of the wrong kind is an error that says what to do") {
  const instance hub("wrong", settings_for(cluster::shared().new_database()));
  const auto fails_with = [&](const std::string& lines, const std::string& words) {
    hub.drop_in(hub.socket_unit(), "[Socket]\nListenStream=\n" + lines);
    command_ok({"systemctl", "start", hub.socket_unit()});
    command({"systemctl", "start", "--no-block", hub.unit()});
    CHECK(eventually(10s, [&] {
      return journal(hub.unit(), {"--priority", "err"}).find(words) != std::string::npos;
    }));
    command({"systemctl", "stop", hub.unit(), hub.socket_unit()});
  };
  fails_with("ListenDatagram=" + hub.socket() + "\n", "passed a datagram or sequential-packet socket");
  fails_with("ListenStream=127.0.0.1:" + std::to_string(random_port()) + "\n", "passed a TCP or UDP socket");
  fails_with("ListenFIFO=" + hub.socket() + "\n", "passed a FIFO");
  fails_with("ListenStream=/run/pgwake/elsewhere.sock\n", "make ListenStream= and `socket` the same");
  fails_with("ListenStream=" + hub.socket() + "\nListenStream=/run/pgwake/second.sock\n",
             "passed a socket at /run/pgwake/second.sock");
}

TEST_CASE("systemd: with wrong settings the socket goes after a few tries, so that workers stop waiting") {
  const instance hub("hopeless", "no_such_setting = 1\n");
  command_ok({"systemctl", "start", hub.socket_unit()});
  raw_worker worker(hub.socket());
  CHECK(worker.closed(20s));
  CHECK(eventually(5s, [&] { return property(hub.socket_unit(), "Result") == "trigger-limit-hit"; }));
  CHECK_FALSE(can_connect(hub.socket()));
  hub.settings(settings_for(cluster::shared().new_database()));
  command_ok({"systemctl", "restart", hub.socket_unit(), hub.unit()});
  CHECK(hub.healthy());
}

TEST_CASE("systemd: a hub started by hand leaves an activated hub alone") {
  const instance hub("taken", settings_for(cluster::shared().new_database()));
  command_ok({"systemctl", "start", hub.socket_unit()});
  hub.start();
  REQUIRE(hub.healthy());
  const auto second = command({"pgwaked", "run", "--socket", hub.socket(), "--config", hub.etc(".toml")});
  CHECK(second.exit_code == 1);
  CHECK_THAT(second.err, Catch::Contains("another hub serves"));
  CHECK(hub.connect().fd() >= 0);
}

TEST_CASE("systemd: the socket's folder removed: the hub stops and is started again with a new one") {
  auto& db = cluster::shared();
  const auto database = db.new_database();
  const instance hub("homeless", settings_for(database));
  hub.start();
  REQUIRE(hub.healthy());
  const auto pid = hub.pid();
  auto worker = hub.connect();
  worker.subscribe("c");
  std::filesystem::remove_all("/run/pgwake/homeless");
  bool told = false;
  while (const auto got = worker.next(10s))
    if (got->t() == "status" && got->flag("draining")) told = true;
  CHECK(told);
  REQUIRE(eventually(20s, [&] { return hub.pid() != 0 && hub.pid() != pid && can_connect(hub.socket()); }));
  CHECK(property(hub.unit(), "NRestarts") == "1");
  CHECK(hub.logs("event=\"socket folder removed\""));
  REQUIRE(hub.healthy());
  auto next = hub.connect();
  next.subscribe("c");
  db.notify("c", "again", database);
  next.expect_wake("c", "again");
}

TEST_CASE("systemd: the folder of a socket unit's socket removed: the log and status say what to restart") {
  const instance hub("unreachable", settings_for(cluster::shared().new_database()));
  command_ok({"systemctl", "start", hub.socket_unit()});
  hub.start();
  REQUIRE(hub.healthy());
  const auto pid = hub.pid();
  std::filesystem::remove_all("/run/pgwake/unreachable");
  CHECK(eventually(10s, [&] {
    return journal(hub.unit()).find("systemctl start pgwaked@NAME.socket pgwaked@NAME.service") !=
           std::string::npos;
  }));
  const auto status = command({"pgwaked", "status", "--socket", hub.socket()});
  CHECK(status.exit_code == 1);
  CHECK_THAT(status.err,
             Catch::Contains(
                 "systemctl stop pgwaked@unreachable.socket pgwaked@unreachable.service && systemctl start "
                 "pgwaked@unreachable.socket pgwaked@unreachable.service"));
  CHECK(hub.pid() == pid);  // who is connected is served on
  command_ok({"systemctl", "stop", hub.socket_unit(), hub.unit()});
  command_ok({"systemctl", "start", hub.socket_unit(), hub.unit()});
  CHECK(hub.healthy());
  CHECK(property(hub.socket_unit(), "ActiveState") == "active");
  CHECK(command({"pgwaked", "status", "--socket", hub.socket()}).exit_code == 0);
}
