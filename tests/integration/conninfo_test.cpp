#include <algorithm>
#include <catch2/catch.hpp>

#include "integration/rig.hpp"
#include "support/malformed_conninfo.hpp"

using namespace pgwake::test;

namespace {

// Every reserved character of a URI, of key=value strings and of password files.
const std::string hard_password = R"(p:@/?#[]!$&'()*+,;=% "\|^~`{}<>)"
                                  "\xC3\xA9";

std::string percent_encoded(const std::string& text) {
  static const char* digits = "0123456789ABCDEF";
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    result += '%';
    result += digits[byte >> 4];
    result += digits[byte & 15];
  }
  return result;
}

std::string escaped(const std::string& text, const std::string& special, char with) {
  std::string result;
  for (const char c : text) {
    if (special.find(c) != std::string::npos) result += with;
    result += c;
  }
  return result;
}

cluster& guarded() {
  static cluster pg;
  static const bool ready = [] {
    pg.exec("CREATE ROLE app LOGIN PASSWORD '" + escaped(hard_password, "'", '\'') + "'");
    pg.set_hba(
        "local all postgres trust\nhost all app 127.0.0.1/32 scram-sha-256\nlocal all app scram-sha-256\n");
    return true;
  }();
  (void)ready;
  return pg;
}

// Starts a hub and takes a notification through it.
void check_serves(hub_options options) {
  auto& pg = guarded();
  hub_daemon hub(std::move(options));
  auto worker = hub.connect_v1();
  worker.subscribe("c");
  pg.notify("c", "x");
  worker.expect_wake("c", "x");
  REQUIRE_EVENTUALLY(pg.census() == 1, 3s);  // application_name shows
  CHECK(pg.value("SELECT usename FROM pg_stat_activity WHERE application_name LIKE 'pgwaked@%'") == "app");
  CHECK(hub.log().find(hard_password) == std::string::npos);
  CHECK(hub.log().find(percent_encoded(hard_password)) == std::string::npos);
  hub.kill();
  REQUIRE_EVENTUALLY(pg.census() == 0, 3s);
}

}  // namespace

TEST_CASE("U1, case 13: every form of connection string connects, with a password of reserved characters") {
  auto& pg = guarded();
  const std::string port = std::to_string(pg.port());
  const temp_dir directory;
  SECTION("URI, percent-encoded") {
    check_serves({.database = "postgresql://app:" + percent_encoded(hard_password) + "@127.0.0.1:" + port +
                              "/postgres"});
  }
  SECTION("URI with the short scheme and parameters") {
    check_serves({.database = "postgres://app@/postgres?host=127.0.0.1&port=" + port +
                              "&sslmode=disable&password=" + percent_encoded(hard_password)});
  }
  SECTION("URI with a socket directory") {
    check_serves({.database = "postgresql:///postgres?host=" + pg.directory() + "&port=" + port +
                              "&user=app&password=" + percent_encoded(hard_password)});
  }
  SECTION("key=value") {
    check_serves({.database = "host=127.0.0.1 port=" + port + " dbname=postgres user=app password='" +
                              escaped(hard_password, "'\\", '\\') + "'"});
  }
  SECTION("environment") {
    check_serves({.env = {{"PGHOST", "127.0.0.1"},
                          {"PGPORT", port},
                          {"PGUSER", "app"},
                          {"PGDATABASE", "postgres"},
                          {"PGPASSWORD", hard_password}}});
  }
  SECTION("service") {
    write_file(directory / "services",
               "[shop]\nhost=127.0.0.1\nport=" + port + "\nuser=app\ndbname=postgres\n");
    check_serves({.database = "service=shop",
                  .env = {{"PGSERVICEFILE", directory / "services"}, {"PGPASSWORD", hard_password}}});
  }
  SECTION("password file, HOME unset") {
    write_file(directory / "pgpass",
               "127.0.0.1:" + port + ":*:app:" + escaped(hard_password, ":\\", '\\') + "\n", 0600);
    check_serves({.database = pg.conninfo("postgres", "app") + " passfile=" + (directory / "pgpass"),
                  .unset = {"HOME"}});
  }
  SECTION("database_file") {
    write_file(
        directory / "database",
        "\n  postgresql://app:" + percent_encoded(hard_password) + "@127.0.0.1:" + port + "/postgres  \n",
        0600);
    check_serves({.arguments = {"--database-file", directory / "database"}});
  }
  SECTION("several hosts") {
    check_serves({.database = "host=127.0.0.1,127.0.0.1 port=" + std::to_string(random_port()) + "," + port +
                              " dbname=postgres user=app password='" + escaped(hard_password, "'\\", '\\') +
                              "'"});
  }
}

TEST_CASE("U1: a password on the command line works, is warned about, and is shown nowhere by us") {
  auto& pg = guarded();
  hub_daemon hub({.database = "postgresql://app:" + percent_encoded(hard_password) +
                              "@127.0.0.1:" + std::to_string(pg.port()) + "/postgres"});
  CHECK(hub.logs("password"));
}

TEST_CASE("U1: application_name is pgwake's own, with its own setting; client_encoding is always UTF8") {
  auto& pg = guarded();
  const std::string mine =
      pg.conninfo("postgres", "app") + " password='" + escaped(hard_password, "'\\", '\\') + "'";
  {
    hub_daemon hub({.database = mine + " application_name=theirs client_encoding=LATIN1",
                    .env = {{"PGCLIENTENCODING", "LATIN1"}}});
    CHECK(pg.census("theirs") == 0);
    REQUIRE_EVENTUALLY(pg.census() == 1, 5s);  // once those of earlier hubs have gone
    auto worker = hub.connect_v1();
    worker.subscribe("\xC3\xA9");
    pg.notify("\xC3\xA9", "\xC3\xA9\xE2\x82\xAC");
    worker.expect_wake("\xC3\xA9", "\xC3\xA9\xE2\x82\xAC");
  }
  hub_daemon hub({.database = mine, .arguments = {"--application-name", "ours"}});
  CHECK(pg.census("ours") == 1);
}

TEST_CASE("U5: a wrong password is retried, told, and never shown") {
  auto& pg = guarded();
  hub_daemon hub(
      {.database = pg.conninfo("postgres", "app") + " password=tell-nobody", .until = readiness::accepting});
  CHECK(hub.child().wait_for_err("password authentication failed", 5s));
  auto worker = hub.connect_v1();
  const auto status = worker.expect("status");
  CHECK_FALSE(status.healthy());
  CHECK_FALSE(status.string("reason").empty());
  CHECK(hub.log().find("tell-nobody") == std::string::npos);
  CHECK(hub.running());
}

TEST_CASE(
    "case 38: an unreachable host is told without the password, and a channel's newline stays in its line") {
  auto& pg = guarded();
  hub_daemon hub(
      {.database = "postgresql://app:tell-nobody@127.0.0.1:" + std::to_string(random_port()) + "/x",
       .until = readiness::accepting});
  CHECK(hub.child().wait_for_err("refused", 5s));
  CHECK(hub.log().find("tell-nobody") == std::string::npos);

  hub_daemon serving({.database = pg.unix_conninfo(), .arguments = {"--log-level", "debug"}});
  auto worker = serving.connect_v1("name with\nERROR newline");
  worker.subscribe("channel with\nERROR newline");
  worker.close();
  serving.stop();
  CHECK(serving.log().find("\nERROR newline") == std::string::npos);
}

TEST_CASE("case 38: a connection string that is wrong is named by its cause, and none of it is repeated") {
  const temp_dir home;
  const auto told = [](std::vector<std::string> arguments,
                       std::vector<std::pair<std::string, std::string>> env = {}) {
    auto job = pgwaked_command(std::move(arguments));
    job.env = std::move(env);
    const auto result = run(std::move(job), 10s);
    INFO(result.out << result.err);
    CHECK(result.exit_code == 2);
    CHECK((result.out + result.err).find("s3cr3t") == std::string::npos);
    return result.out + result.err;
  };
  const auto told_by_all = [&](const std::string& conninfo) {
    const std::vector<std::pair<std::string, std::string>> env = {{"PGWAKE_DATABASE", conninfo}};
    write_file(home / "pgwaked.toml", "database = \"" + conninfo + "\"\n");
    const std::string socket = home / "none";
    std::vector<std::string> all = {told({"config"}, env),
                                    told({"config", "--config", home / "pgwaked.toml"}),
                                    told({"run", "--socket", socket}, env),
                                    told({"run", "--socket", socket, "--database", conninfo}),
                                    told({"doctor", "--socket", socket, "--json"}, env),
                                    told({"listen", "c", "--socket", socket, "--database", conninfo})};
    for (char c : {'\n', '\r'})
      for (auto& text : all) std::replace(text.begin(), text.end(), c, ' ');
    return all;
  };
  for (const std::string uri :
       {"postgress://u:s3cr3tPW@h/d", "POSTGRES://u:s3cr3tPW@h/d", "postgresql//u:s3cr3tPW@h/d",
        "postgresql:/u:s3cr3tPW@h/d", "u:s3cr3tPW@h/d", "postgress://u:s3cr3t=PW@h/d"}) {
    CAPTURE(uri);
    for (const auto& text : told_by_all(uri)) {
      CAPTURE(text);
      CHECK(text.find("begins with postgresql:// or postgres://") != std::string::npos);
    }
  }
  for (const std::string conninfo :
       {"s3cr3t", "password=a s3cr3t", "password=a s3cr3t=x host=h", "s3cr3t=x", "postgres://u:s3cr3t%zz@h/d",
        "postgres://u:a/b?s3cr3t@h/d", "postgres://u:s3cr3t@[::1/d"}) {
    CAPTURE(conninfo);
    told_by_all(conninfo);
  }
}

TEST_CASE("case 38: a keyword that libpq does not know is named where it can be no piece of a password") {
  const auto fault = [](const std::string& conninfo) {
    const auto result = run(pgwaked_command({"config", "--check", "--database", conninfo}), 10s);
    CHECK(result.exit_code == 2);
    return result.out + result.err;
  };
  for (const std::string conninfo :
       {"host=bar password=foo bar = baz", "password=foo bar=baz", "bar=baz password=foo bar",
        "dbname=postgresql://app:pw bar = x", "dbname=postgres://app:pw@h/d bar=x",
        "host=h user=app:pw bar=x", "host=bar bar=x", "host=h user=app@ bar=x", "host=h user=app bar=",
        "host=h user=app bar==", "postgres://u:a/b?bar=x@h/d", "postgres://u:pw@h/d?bar=x"}) {
    CAPTURE(conninfo);
    const auto text = fault(conninfo);
    CHECK_THAT(text, Catch::Contains("it has a keyword that libpq does not know"));
    CHECK_THAT(text, !Catch::Contains("bar"));
  }
  for (const std::string conninfo :
       {"host=h sslmod=require", "sslmod = require host=h", "host=h sslmod=require password=foo",
        "host=h\tsslmod\t= 'x y'", "postgres:///d?connect_timeout=3&sslmod=x"}) {
    CAPTURE(conninfo);
    CHECK_THAT(fault(conninfo), Catch::Contains("\"sslmod\""));
  }
}

TEST_CASE("U1: a value that libpq would refuse for ever is refused at once, with what it takes") {
  const auto fault = [](const std::string& conninfo) {
    const auto result = run(pgwaked_command({"config", "--check", "--database", conninfo}), 10s);
    CHECK(result.exit_code == (result.err.empty() ? 0 : 2));
    return result.err;
  };
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"sslmode=nope",
       "sslmode has a value that libpq does not take; it takes disable, allow, prefer, require, "
       "verify-ca or verify-full"},
      {"postgres://h/d?sslmode=Require", "sslmode"},
      {"target_session_attrs=bad", "any, read-write, read-only, primary, standby or prefer-standby"},
      {"gssencmode=maybe", "disable, prefer or require"},
      {"channel_binding=on", "disable, prefer or require"},
      {"port=abc", "a number from 1 to 65535"},
      {"port=0", "port"},
      {"port=65536", "port"},
      {"host=a,b port=5432,x", "port"},
      {"postgres://h:54a/d", "port"},
      {"connect_timeout=10s",
       "connect_timeout has a value that libpq does not take; it takes a whole number"},
      {"keepalives=on", "keepalives"},
      {"keepalives_idle=1m", "keepalives_idle"},
      {"tcp_user_timeout=99999999999", "tcp_user_timeout"}};
  for (const auto& [conninfo, words] : wrong) {
    CAPTURE(conninfo);
    CHECK_THAT(fault(conninfo), Catch::Contains(words));
  }
  for (const char* right :
       {"sslmode=verify-full", "port=5432", "host=a,b port=5432,5433", "host=a,b port=,5433",
        "port=", "connect_timeout=-1", "connect_timeout=' 10 '", "keepalives=0", "keepalives_count=+3",
        "postgres://h1:1,h2:2/d?target_session_attrs=prefer-standby", "channel_binding=require",
        "dbname=shop"}) {
    CAPTURE(right);
    CHECK(fault(right).empty());
  }
}

TEST_CASE("case 38: a host name that is half a password is not shown by doctor, the hub or a worker") {
  const temp_dir home;
  const std::string conninfo = "postgres://u:a@s3cr3t@nohost.invalid/d";
  const auto doctor =
      run(pgwaked_command({"doctor", "--socket", home / "none", "--database", conninfo}), 20s);
  CHECK(doctor.out.find("***@nohost.invalid cannot be resolved") != std::string::npos);
  CHECK(doctor.out.find("s3cr3t") == std::string::npos);
  process listening(pgwaked_command({"listen", "c", "--socket", home / "none", "--database", conninfo}));
  CHECK(listening.wait_for_out("***@nohost.invalid", 10s));
  CHECK(listening.out().find("s3cr3t") == std::string::npos);
  process hub(pgwaked_command({"run", "--socket", home / "s", "--database", conninfo}));
  CHECK(hub.wait_for_err("***@nohost.invalid", 10s));
  CHECK(hub.err().find("s3cr3t") == std::string::npos);
}

TEST_CASE("secrets: config shows no part of a malformed connection string's password, taken or refused") {
  malformed_conninfo strings(7);
  for (int i = 0; i < 25; ++i) {
    const auto conninfo = strings.next();
    CAPTURE(conninfo);
    auto job = pgwaked_command({"config"});
    job.env = {{"PGWAKE_DATABASE", conninfo}};
    const auto result = run(std::move(job), 10s);
    CHECK((result.exit_code == 0 || result.exit_code == 2));
    CHECK_FALSE(shows_password(result.out + result.err));
  }
}

TEST_CASE("secrets: a connection string with other separators than spaces is refused, and nothing repeated") {
  for (const std::string conninfo :
       {"host=h;port=1;password=Zq7hush", "host=h&port=1&password=Zq7hush", "host=h,password=Zq7hush",
        "host=h|Password=Zq7hush", "postgresql://h/d&password=Zq7hush", "postgresql://h/d;password=Zq7hush",
        "postgresql://h/d?user=u;password=Zq7hush", "postgresql://u;password=Zq7hush@h/d", "host=h;port=1"}) {
    CAPTURE(conninfo);
    const auto result = run(pgwaked_command({"config", "--check", "--database", conninfo}), 10s);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err,
               Catch::Contains("seems to hold further settings") || Catch::Contains("extra key/value"));
    CHECK_FALSE(shows_password(result.out + result.err));
  }
}

TEST_CASE("secrets: what libpq takes, wrong as it is, shows no password in log, status, doctor or listen") {
  const temp_dir home;
  const std::vector<std::pair<std::string, std::string>> in_a_variable = {
      {"PGHOST", "postgresql://u:Zq7hush@h/d"}, {"PGDATABASE", "d;password=Zq7hush"}};
  const std::string in_a_value = "host=/nonexistent user=u:Zq7hush@h dbname=d";
  const bool variable = GENERATE(false, true);
  const auto command = [&](std::vector<std::string> arguments) {
    auto job = pgwaked_command(std::move(arguments));
    job.env = variable ? in_a_variable
                       : std::vector<std::pair<std::string, std::string>>{{"PGWAKE_DATABASE", in_a_value}};
    return job;
  };
  const std::string socket = home / "s";
  process hub(command({"run", "--socket", socket}));
  REQUIRE(hub.wait_for_err("upstream attempt failed", 10s));
  REQUIRE_EVENTUALLY(
      run(command({"status", "--socket", socket}), 10s).out.find("***") != std::string::npos || !variable,
      10s);
  for (auto arguments :
       {std::vector<std::string>{"status"}, {"status", "--json"}, {"doctor"}, {"doctor", "--json"}}) {
    arguments.insert(arguments.end(), {"--socket", socket});
    const auto result = run(command(arguments), 20s);
    CAPTURE(result.out, result.err);
    CHECK_FALSE(shows_password(result.out + result.err));
  }
  CHECK_FALSE(shows_password(hub.err()));
  process listening(command({"listen", "c", "--socket", home / "none"}));
  CHECK(listening.wait_for_out("served by nobody: ", 10s));
  CHECK_FALSE(shows_password(listening.out() + listening.err()));
}
