// Settings, secrets and the journal.
#include <catch2/catch.hpp>

#include "support/files.hpp"
#include "systemd/host.hpp"

using namespace pgwake::test;

namespace {

std::string settings_for(const std::string& database) {
  return "database = \"" + cluster::shared().conninfo(database) + "\"\n";
}

// As the documents have it: with the instance's file alone, doctor finds its hub and its secrets.
void looked_at(const instance& hub) {
  CHECK_THAT(command({"pgwaked", "doctor", "--config", hub.etc(".toml")}).out,
             Catch::Contains("ok       hub") && Catch::Contains("ok       login"));
  CHECK(command({"pgwaked", "status", "--config", hub.etc(".toml")}).exit_code == 0);
}

}  // namespace

TEST_CASE("case 30: reloads keep the process and its subscriptions; a bad file changes nothing and says so") {
  auto& db = cluster::shared();
  const auto database = db.new_database();
  const instance hub("reloaded", settings_for(database));
  hub.start();
  REQUIRE(hub.healthy());
  const auto pid = hub.pid();
  auto worker = hub.connect();
  worker.subscribe("c");
  const auto reload = [&] { return command({"systemctl", "reload", hub.unit()}).exit_code; };
  for (int i = 0; i < 3; ++i) {
    REQUIRE(reload() == 0);
    db.notify("c", std::to_string(i), database);
    worker.expect_wake("c", std::to_string(i));
  }
  hub.settings(settings_for(database) + "max_channels = 1\nheartbeat = \"1s\"\n");
  REQUIRE(reload() == 0);
  REQUIRE(eventually(5s, [&] { return journal(hub.unit()).find("max_channels=1") != std::string::npos; }));
  CHECK_THAT(journal(hub.unit(), {"--priority", "warning"}),
             Catch::Contains("event=\"reload: needs a restart\" setting=heartbeat"));
  worker.sub("one too many");
  CHECK(worker.expect("nack").code() == "limit");

  hub.settings(settings_for(database) + "max_chanels = 5\n");
  CHECK(reload() != 0);
  REQUIRE(eventually(5s, [&] {
    return journal(hub.unit(), {"--priority", "err"}).find("did you mean max_channels?") != std::string::npos;
  }));
  CHECK(eventually(5s, [&] { return property(hub.unit(), "ActiveState") == "active"; }));
  db.notify("c", "still", database);
  worker.expect_wake("c", "still");
  CHECK(hub.pid() == pid);
  hub.settings(settings_for(database));
  CHECK(reload() == 0);
  CHECK(hub.pid() == pid);
}

TEST_CASE("systemd: a bad setting fails the start with a readable message, and is not tried again") {
  const instance hub("bad", "hartbeat = \"5s\"\nprobe_timeout = 5\n");
  CHECK(hub.try_start().exit_code != 0);
  const auto errors = journal(hub.unit(), {"--priority", "err"});
  CHECK_THAT(errors, Catch::Contains("unknown setting hartbeat; did you mean heartbeat?"));
  CHECK_THAT(errors, Catch::Contains("probe_timeout") && Catch::Contains("/etc/pgwake/bad.toml line 2"));
  CHECK(property(hub.unit(), "ActiveState") == "failed");
  CHECK(property(hub.unit(), "ExecMainStatus") == "2");
  CHECK(property(hub.unit(), "NRestarts") == "0");
}

TEST_CASE("systemd: an instance without a settings file says which file is missing") {
  install_package();
  CHECK(command({"systemctl", "start", "pgwaked@nobody"}).exit_code != 0);
  CHECK_THAT(journal("pgwaked@nobody"), Catch::Contains("/etc/pgwake/nobody.toml"));
}

TEST_CASE("systemd: the journal has each line's priority") {
  const instance hub("journal", "database = \"host=127.0.0.1 port=" + std::to_string(random_port()) + "\"\n");
  hub.start();
  REQUIRE(eventually(
      5s, [&] { return journal(hub.unit()).find("upstream attempt failed") != std::string::npos; }));
  const auto only = [&](const char* priority) {
    return journal(hub.unit(), {"--priority", std::string(priority) + ".." + priority, "_COMM=pgwaked"});
  };
  CHECK_THAT(only("info"), Catch::Contains("started version="));
  CHECK_THAT(only("warning"), Catch::Contains("upstream attempt failed"));
  CHECK_THAT(only("info"), !Catch::Contains("upstream attempt failed"));
  CHECK(only("err").empty());
}

TEST_CASE("systemd: the descriptor limit leaves max_workers as it is") {
  const instance hub("limits", settings_for(cluster::shared().new_database()));
  hub.start();
  REQUIRE(hub.healthy());
  CHECK_THAT(journal(hub.unit()), !Catch::Contains("max_workers lowered"));
}

TEST_CASE("systemd: a reload brings a changed credential, and the hub logs in with it, without a restart") {
  auto& db = cluster::shared();
  const auto database = db.new_database();
  db.exec("DROP ROLE IF EXISTS rotated; CREATE ROLE rotated LOGIN PASSWORD 'the second'");
  db.set_hba(
      "local all all trust\nhost all rotated 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n");
  const instance hub("rotated", "database = \"" + db.conninfo(database, "rotated") + "\"\n");
  write_file(hub.etc(".pgpass"), "*:*:*:rotated:the first\n", 0600);
  hub.start();
  REQUIRE(eventually(10s, [&] { return hub.status_text().starts_with("not healthy (login)"); }));
  const auto pid = hub.pid();
  write_file(hub.etc(".pgpass"), "*:*:*:rotated:the second\n", 0600);
  command_ok({"systemctl", "reload", hub.unit()});
  CHECK(eventually(35s, [&] { return hub.status_text().starts_with("healthy"); }));
  CHECK(hub.pid() == pid);
  db.set_hba("local all all trust\nhost all all 127.0.0.1/32 trust\n");
}

TEST_CASE("systemd: the unit's memory limits are above what the settings allow, or the log says so") {
  const auto database = cluster::shared().new_database();
  const instance hub("memory", settings_for(database));
  hub.start();
  REQUIRE(hub.healthy());
  CHECK(property(hub.unit(), "OOMScoreAdjust") == "-500");
  CHECK(property(hub.unit(), "MemoryMax") == std::to_string(4ULL << 30U));
  if (property(hub.unit(), "MemoryCurrent") == "[not set]") {
    WARN("skipped: this machine has no memory controller");
    return;
  }
  CHECK(std::stoull(property(hub.unit(), "MemoryCurrent")) < 200ULL << 20U);
  CHECK_THAT(journal(hub.unit()), !Catch::Contains("memory is limited"));
  hub.settings(settings_for(database) + "outbox_total_max_bytes = \"4GiB\"\n");
  command_ok({"systemctl", "restart", hub.unit()});
  CHECK(hub.healthy());
  CHECK(hub.logs("memory is limited to"));
  CHECK_THAT(journal(hub.unit(), {"--priority", "warning"}),
             Catch::Contains("memory is limited to 2850 MiB") && Catch::Contains("raise MemoryHigh="));
}

TEST_CASE("systemd: secrets come as credentials that root alone can read") {
  auto& db = cluster::shared();
  const auto database = db.new_database();
  db.exec("DROP ROLE IF EXISTS secretive; CREATE ROLE secretive LOGIN PASSWORD 'a #\"secret'");
  db.set_hba(
      "local all all trust\nhost all secretive 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 "
      "trust\n");
  SECTION("a password file") {
    const instance hub("passfile", "database = \"" + db.conninfo(database, "secretive") + "\"\n");
    hub.start();
    CHECK(eventually(5s, [&] { return hub.status_text().starts_with("not healthy (login)"); }));
    hub.stop();
    write_file(hub.etc(".pgpass"), "*:*:*:secretive:a #\"secret\n", 0600);
    hub.start();
    CHECK(hub.healthy());
    looked_at(hub);
  }
  SECTION("a connection string") {
    const instance hub("dsn", "database_file = \"/run/credentials/pgwaked@dsn.service/database\"\n");
    write_file(hub.etc(".database"), db.conninfo(database, "secretive") + " password='a #\"secret'\n", 0600);
    hub.start();
    CHECK(hub.healthy());
    const auto pid = std::to_string(hub.pid());
    CHECK(read_file("/proc/" + pid + "/cmdline").find("secret'") == std::string::npos);
    CHECK(read_file("/proc/" + pid + "/environ").find("secret'") == std::string::npos);
    CHECK_THAT(journal(hub.unit()), !Catch::Contains("a #"));
    looked_at(hub);
    hub.stop();  // the credential goes with it
    CHECK_THAT(command({"pgwaked", "doctor", "--config", hub.etc(".toml")}).out,
               Catch::Contains("failure  socket      no hub at /run/pgwake/dsn/pgwake.sock") &&
                   Catch::Contains("ok       login"));
  }
  db.set_hba("local all all trust\nhost all all 127.0.0.1/32 trust\n");
}
