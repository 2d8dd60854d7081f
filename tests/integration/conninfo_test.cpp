#include <catch2/catch.hpp>

#include "integration/rig.hpp"

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
  CHECK(hub.log().find("password") != std::string::npos);
}

TEST_CASE("U1: application_name is pgwake's own, with its own setting; client_encoding is always UTF8") {
  auto& pg = guarded();
  const std::string mine =
      pg.conninfo("postgres", "app") + " password='" + escaped(hard_password, "'\\", '\\') + "'";
  {
    hub_daemon hub({.database = mine + " application_name=theirs client_encoding=LATIN1",
                    .env = {{"PGCLIENTENCODING", "LATIN1"}}});
    CHECK(pg.census("theirs") == 0);
    CHECK(pg.census() == 1);
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
