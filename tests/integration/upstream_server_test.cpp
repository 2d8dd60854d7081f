// What stands between the hub and a primary that serves it: names, poolers, replicas, settings, waiting
// commits.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <thread>

#include "integration/rig.hpp"
#include "support/pgbouncer.hpp"
#include "support/skip.hpp"

using namespace pgwake::test;

TEST_CASE("U1, case 15: a host that accepts and never answers is passed by") {
  auto& pg = cluster::shared();
  fault_proxy silent(pg);
  silent.hang_connects();
  hub_daemon hub({.database = "host=127.0.0.1,127.0.0.1 port=" + std::to_string(silent.port()) + "," +
                              std::to_string(pg.port()) + " dbname=postgres user=postgres connect_timeout=2",
                  .until = readiness::accepting});
  CHECK(hub.await_health(true, 4500ms));
}

TEST_CASE(
    "U3, case 36: a pooler in between is refused by name, a session pooler allowed where it is wanted") {
  auto& pg = cluster::shared();
  const std::string mode = GENERATE("session", "transaction");
  const pgbouncer pooler(pg, mode);
  {
    hub_daemon hub({.database = pooler.conninfo(), .until = readiness::accepting});
    auto worker = hub.connect_v1();
    const auto refused = [&] {
      const auto status = worker.next(5s);
      return status && status->t() == "status" && status->string("reason") == "pooler";
    };
    REQUIRE_EVENTUALLY(refused(), 10s);
    CHECK(hub.logs("pooler"));
    worker.sub("c");
    CHECK(worker.drain(300ms).empty());
  }
  if (mode == "session") {
    hub_daemon hub({.database = pooler.conninfo(), .arguments = {"--allow-session-pooler"}});
    auto worker = hub.connect_v1();
    worker.subscribe("c");
    pg.notify("c", "through it");
    worker.expect_wake("c", "through it");
  } else {
    hub_daemon hub({.database = pooler.conninfo(),
                    .arguments = {"--allow-session-pooler", "--probe-timeout", "1s"},
                    .until = readiness::accepting});
    auto worker = hub.connect_v1();
    worker.sub("c");
    const auto refused = [&] {
      const auto frame = worker.next(5s);
      CHECK((!frame || frame->t() == "status"));  // no ack from a session that hears nothing
      return frame && frame->string("reason") == "pooler";
    };
    REQUIRE_EVENTUALLY(refused(), 10s);
    CHECK(hub.logs("session mode"));
    CHECK(hub.stop() == 0);
    connection next(pooler.conninfo());  // it gets the very session, as if nobody had set anything in it
    for (const auto* setting : {"synchronous_commit", "lock_timeout", "client_connection_check_interval"})
      CHECK(next.value("SELECT count(*) FROM pg_settings WHERE source = 'session' AND name = '" +
                       std::string(setting) + "'") == "0");
  }
}

TEST_CASE("U3, case 36: a pool with no second session to spare is not believed, whatever its mode") {
  const std::string mode = GENERATE("session", "transaction");
  const pgbouncer pooler(cluster::shared(), mode, "max_client_conn = 1");
  hub_daemon hub({.database = pooler.conninfo(),
                  .arguments = {"--allow-session-pooler", "--probe-timeout", "1s"},
                  .until = readiness::accepting});
  auto worker = hub.connect_v1();
  worker.sub("c");
  REQUIRE_EVENTUALLY(hub.log().find("second session") != std::string::npos, 10s);
  const auto frames = worker.drain(500ms);
  CHECK(std::all_of(frames.begin(), frames.end(), [](const frame& f) { return f.t() == "status"; }));
}

TEST_CASE("U3: a standby does not count; it does once it is promoted") {
  auto& pg = cluster::shared();
  auto standby = pg.make_standby();
  SECTION("by libpq's own check") {
    hub_daemon hub({.database = standby->conninfo(), .until = readiness::accepting});
    CHECK_FALSE(hub.await_health(true, 1500ms));
    standby->promote();
    CHECK(hub.await_health(true, 10s));
  }
  SECTION("by the hub's, where the user asked for any server") {
    hub_daemon hub(
        {.database = standby->conninfo() + " target_session_attrs=any", .until = readiness::accepting});
    CHECK_FALSE(hub.await_health(true, 1500ms));
    CHECK(hub.connect_v1().expect("status").string("reason") == "recovery");
    standby->promote();
    CHECK(hub.await_health(true, 10s));
    auto worker = hub.connect_v1();
    worker.subscribe("c");
    standby->notify("c");
    worker.expect_wake("c");
  }
}

TEST_CASE("U3: when the primary fails over, the next in the list serves, and a gap is announced") {
  cluster primary;
  auto standby = primary.make_standby();
  hub_daemon hub({.database = "host=127.0.0.1,127.0.0.1 port=" + std::to_string(primary.port()) + "," +
                              std::to_string(standby->port()) + " dbname=postgres user=postgres"});
  auto worker = hub.connect_v1();
  worker.subscribe("c");
  primary.stop(stop_mode::immediate);
  worker.await_health(false, 3s);
  standby->promote();
  CHECK(worker.expect("wake", "c", 10s).gap() == "reconnect");
  standby->notify("c", "from the new primary");
  worker.expect_wake("c", "from the new primary");
}

TEST_CASE("U3, case 35: settings of role and database that end idle sessions are no trouble") {
  auto& pg = cluster::shared();
  pg.exec("CREATE ROLE hurried LOGIN");
  for (const char* setting : {"statement_timeout = '100ms'", "lock_timeout = '1ms'",
                              "idle_in_transaction_session_timeout = '100ms'"})
    pg.exec(std::string("ALTER ROLE hurried SET ") + setting);
  if (std::stoi(pg.value("SHOW server_version_num")) >= 140000)
    pg.exec("ALTER ROLE hurried SET idle_session_timeout = '1s'");
  hub_daemon hub({.database = pg.conninfo("postgres", "hurried")});
  auto worker = hub.connect_v1();
  worker.subscribe("c");
  const auto backend = [&] {
    return pg.value("SELECT string_agg(pid::text, ',') FROM pg_stat_activity WHERE usename = 'hurried'");
  };
  const auto before = backend();
  CHECK(worker.drain(in_full() ? 30s : 3500ms).empty());
  CHECK(backend() == before);
  pg.notify("c");
  worker.expect_wake("c");
}

TEST_CASE("U3, U4, case 40: a commit that waits for a synchronous standby is no sign of death") {
  cluster pg;
  hub_daemon hub(
      {.database = pg.conninfo(), .arguments = {"--probe-interval", "300ms", "--probe-timeout", "1s"}});
  auto worker = hub.connect_v1();
  worker.subscribe("c");
  pg.exec("CREATE TABLE work(n int)");
  const auto backend = pg.backend_pids();
  pg.hold_commits();
  auto waiting = pg.connect();
  waiting.exec("SET synchronous_commit = on");
  waiting.send("BEGIN; INSERT INTO work VALUES (1); NOTIFY c, 'late'; COMMIT");
  REQUIRE_EVENTUALLY(pg.value("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == "1",
                     5s);
  CHECK(worker.drain(2500ms).empty());
  CHECK(pg.backend_pids() == backend);
  CHECK(hub.await_health(true, 3s));
  // A new session is accepted as well, though its own NOTIFY cannot commit meanwhile.
  hub_daemon second({.database = pg.conninfo(), .until = readiness::accepting});
  CHECK(second.await_health(true, 15s));
  CHECK(waiting.usable());
  pg.set("synchronous_standby_names", "");
  worker.expect_wake("c", "late", 5s);
  CHECK(pg.terminate(0) == false);
}

TEST_CASE("U5, case 17: a changed password is found in the passfile at the next attempt") {
  cluster pg;
  pg.exec("CREATE ROLE app LOGIN PASSWORD 'first'");
  pg.set_hba("local all postgres trust\nhost all app 127.0.0.1/32 scram-sha-256\n");
  const temp_dir directory;
  const std::string passfile = directory / "pgpass";
  write_file(passfile, "127.0.0.1:*:*:app:first\n", 0600);
  hub_daemon hub({.database = pg.conninfo("postgres", "app") + " passfile=" + passfile});
  auto worker = hub.connect_v1();
  worker.subscribe("c");
  pg.exec("ALTER ROLE app PASSWORD 'second'");
  pg.terminate_all();
  worker.await_health(false, 5s);
  std::this_thread::sleep_for(300ms);
  write_file(passfile, "127.0.0.1:*:*:app:second\n", 0600);
  CHECK(worker.expect("wake", "c", 10s).gap() == "reconnect");
  CHECK(hub.log().find("second") == std::string::npos);
  CHECK(hub.log().find("first\n") == std::string::npos);
}

namespace {

// `command...` in a mount namespace of its own where `files` stand over those of /etc.
std::vector<std::string> with_etc(const std::string& directory, const std::vector<std::string>& files) {
  std::string script;
  for (const auto& file : files)
    script += "mount --bind " + directory + "/" + file + " /etc/" + file + " && ";
  return {"unshare", "-m", "sh", "-c", script + "exec \"$@\"", "sh"};
}

bool may_unshare() {
  static const bool may = geteuid() == 0 && run({.argv = {"unshare", "-m", "true"}}).exit_code == 0;
  return may;
}

}  // namespace

TEST_CASE("U2, case 16: a name is resolved at each attempt") {
  if (!may_unshare()) SKIP_CASE("needs root and mount namespaces: run the tests as root");
  auto& pg = cluster::shared();
  const temp_dir directory;
  write_file(directory / "hosts", "127.0.0.1 localhost\n127.0.0.1 database.test\n");
  write_file(directory / "nsswitch.conf", "hosts: files\n");
  fault_proxy proxy({random_port()}, {pg.port()}, true);
  hub_daemon hub({.database = "host=database.test port=" + std::to_string(proxy.port()) +
                              " dbname=postgres user=postgres connect_timeout=2",
                  .wrapper = with_etc(directory.path(), {"hosts", "nsswitch.conf"})});
  auto worker = hub.connect_v1();
  worker.subscribe("c");
  // 127.0.0.2 is where nobody listens: the hub is down as long as the name points there.
  write_file(directory / "hosts", "127.0.0.1 localhost\n127.0.0.2 database.test\n");
  proxy.reset_all();
  worker.await_health(false, 5s);
  CHECK_FALSE(hub.await_health(true, 1s));
  write_file(directory / "hosts", "127.0.0.1 localhost\n127.0.0.1 database.test\n");
  CHECK(worker.expect("wake", "c", 10s).gap() == "reconnect");
}

TEST_CASE("U2, case 16: a resolver that hangs leaves the workers served") {
  const int silent = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(53);
  address.sin_addr.s_addr = htonl(0x7f000042);  // 127.0.0.66
  if (!may_unshare() || bind(silent, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    close(silent);
    SKIP_CASE("needs root, mount namespaces and port 53 of 127.0.0.66: run the tests as root");
  }
  const temp_dir directory;
  write_file(directory / "resolv.conf", "nameserver 127.0.0.66\noptions timeout:10 attempts:1\n");
  write_file(directory / "nsswitch.conf", "hosts: dns\n");
  hub_daemon hub({.database = "host=database.test dbname=postgres user=postgres",
                  .until = readiness::accepting,
                  .wrapper = with_etc(directory.path(), {"resolv.conf", "nsswitch.conf"})});
  auto worker = hub.connect_v1();
  for (int i = 0; i < 10; ++i) {
    CHECK(time_of([&] { CHECK(worker.until_pong().empty()); }) < at_load(100ms));
    std::this_thread::sleep_for(20ms);
  }
  // It stops in good time even so (case 31).
  worker.close();
  CHECK(time_of([&] { CHECK(hub.stop() == 0); }) < at_load(2500ms));
  close(silent);
}
