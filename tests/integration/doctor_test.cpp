// `pgwaked doctor` against each fault it names, made for real.
#include <rapidjson/document.h>
#include <sys/stat.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <iterator>
#include <map>

#include "integration/rig.hpp"
#include "support/pgbouncer.hpp"
#include "support/skip.hpp"

using namespace pgwake::test;

namespace {

struct diagnosis {
  int exit_code = -1;
  std::string output;  // for INFO
  struct one {
    std::string verdict, found, advice;
  };
  std::multimap<std::string, one> checks;
  rapidjson::Document doc;

  // The worst verdict of a check; empty where it was not made.
  std::string verdict(const std::string& check) const {
    std::string worst;
    const auto rank = [](const std::string& v) {
      return v == "failure" ? 3 : v == "warning" ? 2 : v == "ok" ? 1 : 0;
    };
    for (auto [it, end] = checks.equal_range(check); it != end; ++it)
      if (rank(it->second.verdict) > rank(worst)) worst = it->second.verdict;
    return worst;
  }
  bool says(const std::string& check, const std::string& words) const {
    for (auto [it, end] = checks.equal_range(check); it != end; ++it)
      if ((it->second.found + it->second.advice).find(words) != std::string::npos) return true;
    return false;
  }
};

diagnosis doctor(std::vector<std::string> arguments, const std::string& account = {},
                 std::vector<std::pair<std::string, std::string>> env = {}) {
  arguments.insert(arguments.begin(), {"doctor", "--json", "--max-workers", "64"});
  auto job = pgwaked_command(std::move(arguments));
  job.account = account;
  job.env = std::move(env);
  const auto result = run(std::move(job), 30s);
  diagnosis out;
  out.exit_code = result.exit_code;
  out.output = "pgwaked doctor exited with " + std::to_string(out.exit_code) + "\n" + result.err;
  INFO(result.out << result.err);
  out.doc.Parse(result.out.c_str());
  REQUIRE(out.doc.IsObject());
  for (const auto& c : out.doc["checks"].GetArray()) {
    out.output +=
        std::string(c["check"].GetString()) + " " + c["verdict"].GetString() + ": " + c["found"].GetString() +
        (c["advice"].IsString() ? std::string(" -> ") + c["advice"].GetString() : std::string()) + "\n";
    out.checks.emplace(c["check"].GetString(),
                       diagnosis::one{c["verdict"].GetString(), c["found"].GetString(),
                                      c["advice"].IsString() ? c["advice"].GetString() : ""});
  }
  return out;
}

hub_options small_hub(std::string database) {
  return {.database = std::move(database), .arguments = {"--max-workers", "64"}};
}

}  // namespace

TEST_CASE("doctor finds nothing on a healthy host, and says nothing alarming") {
  auto& pg = cluster::shared();
  const auto database = pg.new_database();
  hub_daemon hub(small_hub(pg.conninfo(database)));
  auto worker = hub.connect_v1("puma");
  worker.subscribe("c");
  const auto d = doctor({"--socket", hub.socket(), "--database", pg.conninfo(database)});
  INFO(d.output);
  CHECK(d.exit_code == 0);
  for (const auto& [check, one] : d.checks) CHECK(one.verdict == "ok");
  for (const char* check :
       {"settings", "socket", "hub", "limits", "name", "tls", "login", "primary", "pooler", "listen",
        "version", "slots", "queue", "timeouts", "fallback", "clock", "budget", "front_door", "drivers"})
    CHECK(d.verdict(check) == "ok");
  const auto& budget = d.doc["budget"];
  CHECK(budget["here_now"].GetInt() >= 1);
  CHECK(budget["workers_here"].GetInt() == 1);
  CHECK(budget["max_connections"].GetInt() == std::stoi(pg.value("SHOW max_connections")));
  // It leaves nothing behind, and the hub and its worker notice nothing.
  CHECK(eventually(3s, [&] { return pg.census("pgwake-doctor@%") == 0; }));
  CHECK(worker.drain(200ms).empty());

  auto job = pgwaked_command({"doctor", "--socket", hub.socket(), "--max-workers", "64"});
  job.env = {{"PGWAKE_DATABASE", pg.conninfo(database)}};
  const auto text = run(std::move(job), 30s);
  CHECK(text.exit_code == 0);
  CHECK(text.out.find("All good") != std::string::npos);
  for (const char* word : {"warning ", "failure", "error"}) {
    INFO(word);
    CHECK(text.out.find(word) == std::string::npos);
  }
}

TEST_CASE("case 36: doctor names a pooler and its mode") {
  auto& pg = cluster::shared();
  const std::string mode = GENERATE("session", "transaction", "statement");
  const std::string more = GENERATE("", "default_pool_size = 1", "server_round_robin = 1");
  const pgbouncer pooler(pg, mode, more);
  auto d = doctor({"--socket", "/nonexistent/s", "--database", pooler.conninfo()});
  INFO(mode << " " << more << "\n" << d.output);
  CHECK(d.exit_code == 2);
  CHECK(d.verdict("pooler") == "failure");
  CHECK(d.says("pooler", mode == "session" ? "session mode" : "transaction (or statement) mode"));
  d = doctor({"--socket", "/nonexistent/s", "--allow-session-pooler", "--database", pooler.conninfo()});
  INFO(d.output);
  CHECK(d.verdict("pooler") == (mode == "session" ? "ok" : "failure"));
  if (mode == "session") CHECK(d.verdict("listen") == "ok");
}

TEST_CASE("doctor names a standby, and is content where the list has a primary") {
  auto& pg = cluster::shared();
  const auto standby = pg.make_standby();
  auto d = doctor({"--socket", "/nonexistent/s", "--database", standby->conninfo()});
  INFO(d.output);
  CHECK(d.exit_code == 2);
  CHECK(d.verdict("primary") == "failure");
  CHECK(d.says("primary", "standby"));
  CHECK(d.verdict("login") == "ok");
  d = doctor({"--socket", "/nonexistent/s", "--database",
              "host=127.0.0.1,127.0.0.1 port=" + std::to_string(standby->port()) + "," +
                  std::to_string(pg.port()) + " dbname=postgres user=postgres"});
  INFO(d.output);
  CHECK(d.verdict("primary") == "ok");
  CHECK(d.says("primary", std::to_string(standby->port())));
  CHECK(d.verdict("listen") == "ok");
}

TEST_CASE("doctor names full slots") {
  cluster pg({.settings = {{"max_connections", "8"}, {"superuser_reserved_connections", "3"}}});
  pg.exec("CREATE ROLE app LOGIN");
  std::vector<connection> crowd;
  // Five are for ordinary roles, the superuser's session of this test is one. With one left doctor's first
  // session gets in, the second does not.
  while (crowd.size() < 3) crowd.push_back(pg.connect("postgres", "app"));
  auto d = doctor({"--socket", "/nonexistent/s", "--database", pg.conninfo("postgres", "app")});
  INFO(d.output);
  CHECK(d.verdict("slots") == "warning");
  CHECK(d.says("slots", "1 free"));
  CHECK(d.verdict("listen") == "ok");
  REQUIRE_EVENTUALLY(pg.census("pgwake-doctor@%") == 0, 3s);
  crowd.push_back(pg.connect("postgres", "app"));
  d = doctor({"--socket", "/nonexistent/s", "--database", pg.conninfo("postgres", "app")});
  INFO(d.output);
  CHECK(d.exit_code == 2);
  CHECK(d.verdict("slots") == "failure");
  CHECK(d.says("slots", "max_connections"));
  // A superuser still gets in, and sees the same.
  d = doctor({"--socket", "/nonexistent/s", "--database", pg.conninfo()});
  INFO(d.output);
  CHECK(d.verdict("slots") == "failure");
  CHECK(d.says("slots", "0 free"));
}

TEST_CASE("U8: doctor understands a CONNECTION LIMIT of 1 that the hub uses up") {
  auto& pg = cluster::shared();
  pg.exec("CREATE ROLE one LOGIN CONNECTION LIMIT 1");
  const auto conninfo = pg.conninfo("postgres", "one");
  hub_daemon hub(small_hub(conninfo));
  auto d = doctor({"--socket", hub.socket(), "--database", conninfo});
  INFO(d.output);
  CHECK(d.exit_code == 0);
  for (const auto& [check, one] : d.checks) CHECK(one.verdict == "ok");
  CHECK(d.says("slots", "the running hub has the one it needs"));
  CHECK(d.says("version", "PostgreSQL"));
  for (const auto& check : d.doc["skipped"].GetArray()) CHECK(d.verdict(check.GetString()).empty());
  CHECK(d.doc["skipped_because"]["clock"].IsString());
  CHECK(d.doc["budget"].IsNull());
  // Where it is not the hub that has the connection, that is a failure still.
  hub.kill();
  REQUIRE_EVENTUALLY(pg.value("SELECT count(*) FROM pg_stat_activity WHERE usename = 'one'") == "0", 10s);
  const auto holder = pg.connect("postgres", "one");
  d = doctor({"--socket", hub.socket(), "--database", conninfo});
  INFO(d.output);
  CHECK(d.verdict("slots") == "failure");
}

TEST_CASE("U8: whose CONNECTION LIMIT the hub uses up is known by the hub's own settings") {
  auto& pg = cluster::shared();
  pg.exec(
      "DROP ROLE IF EXISTS limited; CREATE ROLE limited LOGIN CONNECTION LIMIT 1; "
      "DROP ROLE IF EXISTS other; CREATE ROLE other LOGIN");
  const auto limited = pg.conninfo("postgres", "limited");
  const temp_dir directory;
  const auto file = [&](const std::string& name, const std::string& text) {
    write_file(directory / name, text);
    return directory / name;
  };
  SECTION("another role's") {
    const hub_daemon hub(small_hub(pg.conninfo("postgres", "other")));
    const auto holder = pg.connect("postgres", "limited");
    const auto d = doctor({"--socket", hub.socket(), "--database", limited});
    INFO(d.output);
    CHECK(d.exit_code == 1);
    CHECK(d.verdict("slots") == "warning");
    CHECK(d.says("slots", "too many connections for role"));
    CHECK_FALSE(d.says("slots", "has the one it needs"));
  }
  SECTION("of one settings file") {
    const auto config = file("shop.toml", "database = \"" + limited + "\"\nmax_workers = 64\n");
    const hub_daemon hub({.arguments = {"--config", config}});
    const auto d = doctor({"--socket", hub.socket(), "--config", config});
    INFO(d.output);
    CHECK(d.exit_code == 0);
    CHECK(d.says("slots", "has the one it needs"));
  }
  SECTION("of a file that holds the connection string, and PGUSER") {
    const auto database =
        file("database", "host=127.0.0.1 port=" + std::to_string(pg.port()) + " dbname=postgres\n");
    const auto config = file("shop.toml", "database_file = \"" + database + "\"\n");
    const hub_daemon hub(
        {.arguments = {"--config=" + config, "--max-workers", "64"}, .env = {{"PGUSER", "limited"}}});
    const auto d = doctor({"--socket", hub.socket()}, {}, {{"PGWAKE_DATABASE", limited}});
    INFO(d.output);
    CHECK(d.exit_code == 0);
    CHECK(d.says("slots", "has the one it needs"));
  }
  if (geteuid() != 0) SKIP_CASE(needs_root);
  SECTION("by an account that may not read the hub's environment") {
    give_to_server(directory.path());
    const bool named = GENERATE(true, false);
    const auto config =
        file("shop.toml", "database = \"host=127.0.0.1 dbname=postgres port=" + std::to_string(pg.port()) +
                              (named ? " user=limited" : "") + "\"\n");
    const hub_daemon hub({.arguments = {"--config", config, "--max-workers", "64", "--socket-mode", "0666"},
                          .env = {{"PGUSER", "limited"}}});
    const auto d = doctor({"--socket", hub.socket(), "--config", config}, server_account(),
                          {{"PGUSER", "limited"}, {"PGWAKE_HUB_USER", "root"}});
    INFO(d.output);
    CHECK(d.verdict("slots") == "ok");  // the hub itself says which role it logs in as
  }
}

TEST_CASE("doctor names what stops a login, and never a password") {
  cluster pg;
  pg.exec("CREATE ROLE app LOGIN PASSWORD 'right-one'; CREATE ROLE outsider LOGIN");
  pg.set_hba("local all postgres trust\nhost all app 127.0.0.1/32 scram-sha-256\n");
  const auto try_it = [&](const std::string& conninfo) {
    auto d = doctor({"--socket", "/nonexistent/s"}, {}, {{"PGWAKE_DATABASE", conninfo}});
    INFO(d.output);
    CHECK(d.output.find("wrong-one") == std::string::npos);
    CHECK(d.exit_code == 2);
    return d;
  };
  auto d = try_it(pg.conninfo("postgres", "app") + " password=wrong-one");
  INFO(d.output);
  CHECK(d.verdict("login") == "failure");
  CHECK(d.says("login", "password"));
  d = try_it(pg.conninfo("postgres", "app"));
  CHECK(d.says("login", "passfile"));
  d = try_it(pg.conninfo("postgres", "outsider"));
  CHECK(d.says("login", "pg_hba.conf"));
  d = try_it(pg.conninfo("nowhere", "app") + " password=right-one");
  CHECK(d.says("login", "create the database"));
  d = try_it("postgresql://app:wrong-one@127.0.0.1:" + std::to_string(random_port()) + "/postgres");
  CHECK(d.verdict("connect") == "failure");
  CHECK(d.says("connect", "Connection refused"));
  d = try_it("postgresql://app:wrong-one@no-such-host.invalid/postgres");
  CHECK(d.verdict("name") == "failure");
  d = try_it("hots=localhost password=wrong-one");
  CHECK(d.verdict("settings") == "failure");
  CHECK(d.says("settings", "hots"));
}

TEST_CASE("doctor gives up on a server that does not answer") {
  fault_proxy silent(cluster::shared());
  silent.hang_connects();
  diagnosis d;
  const auto taken = time_of([&] {
    d = doctor({"--socket", "/nonexistent/s", "--connect-timeout", "2s", "--database", silent.conninfo()});
  });
  INFO(d.output);
  CHECK(taken < at_load(6s));
  CHECK(d.exit_code == 2);
  CHECK(d.says("connect", "no answer within 2000 ms"));
}

TEST_CASE("doctor names an expired certificate, and other troubles of TLS") {
  cluster pg({.tls = true});
  const auto conninfo = [&](const std::string& host, const std::string& mode) {
    return "host=" + host + " port=" + std::to_string(pg.port()) +
           " dbname=postgres user=postgres sslmode=" + mode + " sslrootcert=" + pg.ca_file();
  };
  auto d = doctor({"--socket", "/nonexistent/s", "--database", conninfo("localhost", "verify-full")});
  INFO(d.output);
  CHECK(d.says("tls", "TLSv1"));
  CHECK(d.says("tls", "expires in"));  // the test's certificate lives two days

  run_ok({.argv = {"openssl", "x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
                   "-CAcreateserial", "-days", "0", "-extfile", "san.cnf", "-out", "server.crt"},
          .directory = pg.directory()});
  give_to_server(pg.directory() + "/server.crt");
  pg.exec("SELECT pg_reload_conf()");
  REQUIRE_EVENTUALLY(
      doctor({"--socket", "/nonexistent/s", "--database", conninfo("localhost", "verify-full")})
              .verdict("tls") == "failure",
      10s);
  d = doctor({"--socket", "/nonexistent/s", "--database", conninfo("localhost", "verify-full")});
  INFO(d.output);
  CHECK(d.exit_code == 2);
  CHECK(d.says("tls", "certificate expired"));
  // Who does not verify is served, and warned.
  d = doctor({"--socket", "/nonexistent/s", "--database",
              "host=localhost port=" + std::to_string(pg.port()) +
                  " dbname=postgres user=postgres sslmode=require"});
  INFO(d.output);
  CHECK(d.verdict("tls") == "warning");
  CHECK(d.says("tls", "certificate expired"));
  CHECK(d.verdict("listen") == "ok");
}

TEST_CASE("doctor names a server without TLS where TLS is demanded") {
  const auto d =
      doctor({"--socket", "/nonexistent/s", "--database", cluster::shared().conninfo() + " sslmode=require"});
  INFO(d.output);
  CHECK(d.exit_code == 2);
  CHECK(d.says("tls", "no TLS"));
}

TEST_CASE("case 35: doctor names idle_session_timeout, and whose it is") {
  auto& pg = cluster::shared();
  pg.exec("CREATE ROLE idler LOGIN; ALTER ROLE idler SET idle_session_timeout = '1min'");
  hub_daemon hub(small_hub(pg.conninfo("postgres", "idler")));
  const auto d = doctor({"--socket", hub.socket(), "--database", pg.conninfo("postgres", "idler")});
  INFO(d.output);
  CHECK(d.exit_code == 1);
  CHECK(d.verdict("timeouts") == "warning");
  CHECK(d.says("timeouts", "idle_session_timeout = 60000 ms (user)"));
}

TEST_CASE("doctor names a notify queue that fills, and who keeps it from emptying") {
  cluster pg;
  auto sleeper = pg.connect();
  sleeper.exec("SET application_name = 'forgotten'; LISTEN anything");
  sleeper.exec("BEGIN; SELECT 1");
  // The queue holds 8 GiB: 2 % are 160 MiB, one page of 8 KiB for each of these.
  auto publisher = pg.connect();
  for (int i = 0; i < 22; ++i)
    publisher.exec("SELECT pg_notify('q', n || repeat('x', 7900)) FROM generate_series(1, 1000) n");
  CHECK(std::stod(pg.value("SELECT pg_notification_queue_usage()")) > 0.02);
  auto d = doctor({"--socket", "/nonexistent/s", "--database", pg.conninfo()});
  INFO(d.output);
  CHECK(d.verdict("queue") == "ok");
  CHECK(d.verdict("listen") == "ok");
  d = doctor({"--socket", "/nonexistent/s", "--queue-threshold", "2", "--database", pg.conninfo()});
  INFO(d.output);
  CHECK(d.verdict("queue") == "warning");
  CHECK(
      d.says("queue", "PID " + std::to_string(sleeper.backend_pid()) + " (forgotten), idle in transaction"));
  sleeper.exec("COMMIT");
  REQUIRE_EVENTUALLY(std::stod(pg.value("SELECT pg_notification_queue_usage()")) < 0.02, 20s);
  d = doctor({"--socket", "/nonexistent/s", "--queue-threshold", "2", "--database", pg.conninfo()});
  INFO(d.output);
  CHECK(d.verdict("queue") == "ok");
}

TEST_CASE("case 40: doctor names a NOTIFY that waits behind a synchronous commit") {
  cluster pg;
  pg.exec("CREATE TABLE work(n int)");
  pg.hold_commits();
  auto waiting = pg.connect();
  waiting.exec("SET synchronous_commit = on");
  waiting.send("BEGIN; INSERT INTO work VALUES (1); NOTIFY c; COMMIT");
  REQUIRE_EVENTUALLY(pg.value("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == "1",
                     5s);
  const auto d = doctor({"--socket", "/nonexistent/s", "--database", pg.conninfo()});
  INFO(d.output);
  CHECK(d.verdict("listen") == "warning");
  CHECK(d.says("listen", "synchronous"));
  pg.set("synchronous_standby_names", "");
}

TEST_CASE("doctor names a socket that is absent, stale, no socket, or closed to the user") {
  auto& pg = cluster::shared();
  const temp_dir directory;
  auto d = doctor({"--socket", directory / "none", "--database", pg.conninfo()});
  INFO(d.output);
  CHECK(d.exit_code == 2);
  CHECK(d.says("socket", "no such socket"));
  CHECK(doctor({"--socket", "/run/pgwake/nowhere/pgwake.sock", "--database", pg.conninfo()})
            .says("socket", "systemctl start pgwaked@nowhere"));
  CHECK(d.verdict("listen") == "ok");
  write_file(directory / "plain", "x");
  CHECK(
      doctor({"--socket", directory / "plain", "--database", pg.conninfo()}).says("socket", "not a socket"));

  hub_daemon hub(small_hub(pg.conninfo()));
  if (geteuid() == 0) {
    d = doctor({"--socket", hub.socket(), "--database", pg.conninfo()}, server_account());
    INFO(d.output);
    CHECK(d.exit_code == 2);
    CHECK(d.verdict("socket") == "failure");
    CHECK(d.says("socket", "permission denied"));
    CHECK(d.says("socket", "0660"));
    CHECK(d.says("socket", "member of that group"));
    for (const unsigned mode : {0600U, 0000U}) {
      REQUIRE(::chmod(hub.socket().c_str(), mode) == 0);
      d = doctor({"--socket", hub.socket(), "--database", pg.conninfo()}, server_account());
      INFO(d.output);
      CHECK(d.says("socket", "permission denied"));
      CHECK_FALSE(d.says("socket", "member of"));
      CHECK(d.says("socket", "socket_mode"));
    }
  }
  hub.kill();
  d = doctor({"--socket", hub.socket(), "--database", pg.conninfo()});
  INFO(d.output);
  CHECK(d.exit_code == 2);
  CHECK(d.says("socket", "nobody listens"));
}

TEST_CASE("doctor names a socket that everybody may use, and a hub that hangs") {
  auto& pg = cluster::shared();
  hub_daemon hub({.database = pg.conninfo(), .arguments = {"--max-workers", "64", "--socket-mode", "0666"}});
  auto d = doctor({"--socket", hub.socket(), "--database", pg.conninfo()});
  INFO(d.output);
  CHECK(d.exit_code == 1);
  CHECK(d.verdict("socket") == "warning");
  hub.child().signal(SIGSTOP);
  d = doctor({"--socket", hub.socket(), "--database", pg.conninfo()});
  hub.child().signal(SIGCONT);
  INFO(d.output);
  CHECK(d.exit_code == 2);
  CHECK(d.says("socket", "does not answer"));
}

TEST_CASE("doctor's advice about a hub of another user clears its own warning") {
  if (geteuid() != 0) SKIP_CASE(needs_root);
  auto& pg = cluster::shared();
  const temp_dir home;
  ::chmod(home.path().c_str(), 0777);
  const auto path = home / "s";
  auto job = pgwaked_command(
      {"run", "--socket", path, "--max-workers", "64", "--socket-mode", "0666", "--database", pg.conninfo()});
  job.account = "nobody";
  process hub(std::move(job));
  REQUIRE(hub.wait_for_err("upstream connected", 10s));
  const std::vector<std::string> arguments = {"--socket", path, "--database", pg.conninfo()};
  auto with = [&](const std::string& user) {
    return doctor(arguments, server_account(), {{"PGWAKE_HUB_USER", user}});
  };
  auto d = with("");
  INFO(d.output);
  CHECK(d.says("hub", "set PGWAKE_HUB_USER=nobody"));
  for (const char* user : {"nobody", "65534"}) {
    d = with(user);
    INFO(d.output);
    CHECK(d.verdict("hub") == "ok");
  }
}

TEST_CASE("doctor names a degraded hub, another database, and workers on their own connections") {
  auto& pg = cluster::shared();
  const auto database = pg.new_database();
  hub_daemon hub(small_hub(pg.conninfo(database)));
  auto d = doctor({"--socket", hub.socket(), "--database", pg.conninfo()});
  INFO(d.output);
  CHECK(d.exit_code == 2);
  CHECK(d.says("hub", "serves database " + database));

  std::array<char, 256> host{};
  REQUIRE(gethostname(host.data(), host.size()) == 0);
  auto fallen = pg.connect(database);
  fallen.exec("SET application_name = 'pgwake-fallback@" + std::string(host.data()) + "'");
  d = doctor({"--socket", hub.socket(), "--database", pg.conninfo(database)});
  INFO(d.output);
  CHECK(d.exit_code == 1);
  CHECK(d.says("fallback", "1 worker of this host"));

  pg.exec("ALTER DATABASE " + database + " ALLOW_CONNECTIONS false");
  pg.terminate_all();
  REQUIRE(hub.await_health(false, 5s));
  d = doctor({"--socket", hub.socket(), "--database", pg.conninfo(database)});
  INFO(d.output);
  CHECK(d.exit_code == 2);
  CHECK(d.verdict("hub") == "failure");
  CHECK(d.verdict("login") == "failure");
}

TEST_CASE("one PGWAKE_APPLICATION_NAME for hub, workers and doctor makes no worker a hub") {
  auto& pg = cluster::shared();
  const auto database = pg.new_database();
  auto options = small_hub(pg.conninfo(database));
  options.arguments.insert(options.arguments.end(), {"--application-name", "shared"});
  hub_daemon hub(std::move(options));
  const std::vector<std::pair<std::string, std::string>> env = {{"PGWAKE_APPLICATION_NAME", "shared"}};
  auto job = pgwaked_command({"listen", "c", "--policy", "direct", "--database", pg.conninfo(database)});
  job.env = env;
  process worker(std::move(job));
  REQUIRE(worker.wait_for_out("subscribed to c", 10s));
  const auto d = doctor({"--socket", hub.socket(), "--database", pg.conninfo(database)}, "", env);
  INFO(d.output);
  CHECK(d.says("fallback", "uses its own connection"));
  CHECK_FALSE(d.says("fallback", "2 hubs"));
  const auto& hosts = d.doc["budget"]["by_host"];
  REQUIRE(hosts.Size() == 1);
  CHECK(hosts[0]["hubs"].GetInt() == 1);
  CHECK(hosts[0]["fallbacks"].GetInt() == 1);
}

TEST_CASE("doctor takes the hub's own file, and names what is wrong in it") {
  auto& pg = cluster::shared();
  const temp_dir directory;
  const auto file = directory / "shop.toml";
  write_file(file, "database = \"" + pg.conninfo() + "\"\nsocket = \"" + (directory / "s") +
                       "\"\nhaertbeat = \"5s\"\n");
  auto d = doctor({"--config", file});
  INFO(d.output);
  CHECK(d.exit_code == 2);
  CHECK(d.says("settings", "haertbeat"));
  write_file(file, "database = \"" + pg.conninfo() + "\"\nsocket = \"" + (directory / "s") + "\"\n");
  d = doctor({"--config", file});
  INFO(d.output);
  CHECK(d.verdict("settings") == "ok");
  CHECK(d.says("socket", directory / "s"));
  CHECK(d.verdict("listen") == "ok");
  CHECK(doctor({"--config", file, "--queue-threshold", "lots"}).says("settings", "queue-threshold"));
}

TEST_CASE("doctor says what to do about each warning of the settings") {
  const auto d =
      doctor({"--socket", "/nonexistent/s", "--database", "host=/nonexistent dbname=x password=hush"});
  INFO(d.output);
  const auto [first, last] = d.checks.equal_range("settings");
  CHECK(std::distance(first, last) == 1);
  for (auto it = first; it != last; ++it) {
    CHECK(it->second.verdict == "warning");
    CHECK_FALSE(it->second.advice.empty());
  }
  CHECK(d.says("settings", "use database_file"));
  CHECK_FALSE(d.says("settings", "hush"));
}

TEST_CASE("doctor names a number of its own that makes no sense, and where it came from") {
  const std::vector<std::string> nowhere = {"--socket", "/nonexistent/s", "--database",
                                            "host=/nonexistent dbname=x"};
  auto with = [&](const std::string& option, const std::string& value) {
    auto arguments = nowhere;
    arguments.push_back(option + "=" + value);
    return arguments;
  };
  CHECK(doctor(nowhere, "", {{"PGWAKE_FALLBACK_LIMIT", "x"}}).says("settings", "PGWAKE_FALLBACK_LIMIT=x: "));
  CHECK(doctor(with("--fallback-limit", "-1"), "", {{"PGWAKE_FALLBACK_LIMIT", "x"}})
            .says("settings", "--fallback-limit=-1: it may not be negative"));
  CHECK(doctor(with("--fallback-limit", "10001")).says("settings", "the most is 10000"));
  CHECK(doctor(with("--queue-threshold", "0")).says("settings", "--queue-threshold=0: "));
  CHECK(doctor(with("--fallback-limit", "10000")).verdict("settings") == "ok");
}

TEST_CASE("section 9: doctor connects through the front door, and names what stands in the way there") {
  auto& pg = cluster::shared();
  const auto database = pg.new_database();
  auto options = small_hub(pg.conninfo(database));
  options.arguments.emplace_back("--front-door");
  // What the environment says of the server must not lead the look at the front door there.
  const auto look = [&](hub_daemon& hub, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--socket", hub.socket(), "--database", pg.conninfo(database), "--front-door"});
    return doctor(std::move(more), {}, {{"PGHOSTADDR", "127.0.0.1"}});
  };
  {
    hub_daemon hub(options);
    auto d = look(hub);
    INFO(d.output);
    CHECK(d.exit_code == 0);
    CHECK(d.verdict("front_door") == "ok");
    CHECK(d.says("front_door", "a NOTIFY of the server arrived at host="));
    // It leaves nothing behind there either.
    CHECK(eventually(3s, [&] {
      return run(pgwaked_command({"status", "--socket", hub.socket()}), 10s).out.find("pgwake-doctor") ==
             std::string::npos;
    }));
    d = look(hub, {"--front-door-port", "6000"});
    INFO(d.output);
    CHECK(d.exit_code == 2);
    CHECK(d.verdict("front_door") == "failure");
    CHECK(d.says("front_door", "restart the hub"));
    const auto other = pg.new_database();
    d = doctor({"--socket", hub.socket(), "--database", pg.conninfo(other), "--front-door"});
    INFO(d.output);
    CHECK(d.verdict("front_door") == "ok");
    CHECK(d.says("front_door", "another database"));
  }
  auto narrow = options;
  narrow.arguments.insert(narrow.arguments.end(), {"--allow", "* jobs.*"});
  hub_daemon hub(narrow);
  auto d = look(hub);
  INFO(d.output);
  CHECK(d.verdict("front_door") == "ok");
  CHECK(d.says("front_door", "gives this user no channel"));
}

TEST_CASE("SQL: doctor and hub run none of a database's own functions, whatever its search_path puts first") {
  auto& pg = cluster::shared();
  const auto database = pg.new_database();
  pg.exec("CREATE SCHEMA evil", database);
  pg.exec("CREATE SEQUENCE evil.hits", database);
  const auto trap = [&](const std::string& name, const std::string& arguments, const std::string& type) {
    pg.exec(
        "CREATE FUNCTION evil." + name + "(" + arguments + ") RETURNS " + type +
            " LANGUAGE plpgsql AS $$BEGIN PERFORM pg_catalog.nextval('evil.hits'); RAISE 'trapped'; END$$",
        database);
  };
  trap("pg_backend_pid", "", "int");
  trap("pg_is_in_recovery", "", "boolean");
  trap("current_database", "", "name");
  trap("pg_notification_queue_usage", "", "float8");
  trap("current_setting", "text", "text");
  trap("set_config", "text, text, boolean", "text");
  trap("clock_timestamp", "", "timestamptz");
  trap("pg_listening_channels", "", "SETOF text");
  trap("pg_control_system", "", "TABLE (system_identifier bigint)");
  trap("text_equal", "text, text", "boolean");
  trap("name_equal", "name, name", "boolean");
  trap("text_like", "text, text", "boolean");
  trap("text_differs", "text, text", "boolean");
  pg.exec("CREATE OPERATOR evil.= (FUNCTION = evil.text_equal, LEFTARG = text, RIGHTARG = text)", database);
  pg.exec("CREATE OPERATOR evil.= (FUNCTION = evil.name_equal, LEFTARG = name, RIGHTARG = name)", database);
  pg.exec("CREATE OPERATOR evil.~~ (FUNCTION = evil.text_like, LEFTARG = text, RIGHTARG = text)", database);
  pg.exec("CREATE OPERATOR evil.<> (FUNCTION = evil.text_differs, LEFTARG = text, RIGHTARG = text)",
          database);
  for (const char* relation : {"pg_stat_activity", "pg_settings", "pg_roles", "pg_database"})
    pg.exec("CREATE VIEW evil." + std::string(relation) +
                " AS SELECT pg_catalog.nextval('evil.hits') AS pid, "
                "1 / (pg_catalog.random() * 0)::int AS setting",
            database);
  pg.exec("ALTER DATABASE " + database + " SET search_path = evil, pg_catalog", database);
  hub_daemon hub(small_hub(pg.conninfo(database)));
  auto worker = hub.connect_v1("puma");
  worker.subscribe("c");
  pg.notify("c", "x", database);
  worker.expect_wake("c", "x");
  const auto d = doctor({"--socket", hub.socket(), "--database", pg.conninfo(database)});
  INFO(d.output);
  for (const char* check :
       {"hub", "primary", "pooler", "listen", "slots", "queue", "timeouts", "fallback", "clock", "budget"})
    CHECK(d.verdict(check) == "ok");
  CHECK(pg.value("SELECT pg_catalog.bool_or(is_called) FROM evil.hits", database) == "f");
}

TEST_CASE("section 9: doctor names the drivers of this host that LISTEN past the front door") {
  auto& pg = cluster::shared();
  const auto database = pg.new_database();
  auto options = small_hub(pg.conninfo(database));
  options.arguments.emplace_back("--front-door");
  hub_daemon hub(options);
  const auto look = [&](const std::string& user = "postgres") {
    return doctor({"--socket", hub.socket(), "--database", pg.conninfo(database, user), "--front-door"});
  };
  auto d = look();
  INFO(d.output);
  CHECK(d.verdict("drivers") == "ok");
  CHECK(d.says("drivers", "no driver of this host is seen to LISTEN"));
  const auto direct = [&](const std::string& name, bool unix_socket) {
    return connection((unix_socket ? pg.unix_conninfo(database) : pg.conninfo(database)) +
                      " application_name='" + name + "'");
  };
  auto first = direct("puma 2", false);
  first.exec("LISTEN orders");
  auto second = direct("puma 2", true);
  second.exec("DO $$BEGIN LISTEN orders; END$$");
  auto third = direct("queries", false);
  third.exec("SELECT 'LISTEN orders'");
  auto elsewhere = pg.connect(pg.new_database());
  elsewhere.exec("LISTEN orders");
  d = look();
  INFO(d.output);
  CHECK(d.exit_code == 1);
  CHECK(d.verdict("drivers") == "warning");
  CHECK(d.says("drivers", "2 sessions of this host LISTEN at the database itself: 2 puma 2"));
  CHECK_FALSE(d.says("drivers", "queries"));
  pg.exec("CREATE ROLE plain LOGIN");
  d = look("plain");
  INFO(d.output);
  CHECK(d.verdict("drivers") == "ok");
  CHECK(d.says("drivers", "sessions of other roles said last is not shown"));
}

TEST_CASE("section 9: doctor finds the front door of a database with any name") {
  auto& pg = cluster::shared();
  const std::string database = "it's \\ host=x";
  pg.exec("CREATE DATABASE \"" + database + "\"");
  auto options = small_hub("host=127.0.0.1 port=" + std::to_string(pg.port()) +
                           " user=postgres dbname='it\\'s \\\\ host=x'");
  options.arguments.emplace_back("--front-door");
  hub_daemon hub(options);
  const auto d = doctor({"--socket", hub.socket(), "--database", options.database, "--front-door"});
  INFO(d.output);
  CHECK(d.verdict("front_door") == "ok");
  CHECK(d.says("front_door", "a NOTIFY of the server arrived at host="));
}
