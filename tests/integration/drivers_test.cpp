#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>

#include "integration/rig.hpp"

// Real drivers at the front door, each as its documents show it (tests/drivers): they print `ready` when they
// listen, `got PAYLOAD`, and `lost` when they were told that their connection has ended.
using namespace pgwake::test;

namespace {

struct driver {
  const char* name;
  std::vector<std::string> probe;  // succeeds where it is installed
  std::vector<std::string> command;
};

std::string script(const char* name) { return std::string(PGWAKE_SOURCE_DIR) + "/tests/drivers/" + name; }

std::vector<driver> drivers() {
  const std::string python = "/usr/bin/python3";
  return {
      {"psql", {"psql", "--version"}, {"sh", script("psql_loop.sh")}},
      {"psycopg 3", {python, "-c", "import psycopg"}, {python, script("psycopg3.py")}},
      {"psycopg 3 in transactions",
       {python, "-c", "import psycopg"},
       {python, script("psycopg3_transaction.py")}},
      {"psycopg 2", {python, "-c", "import psycopg2"}, {python, script("psycopg2_select.py")}},
      {"asyncpg", {python, "-c", "import asyncpg"}, {python, script("asyncpg_pool.py")}},
      {"aiopg", {python, "-c", "import aiopg"}, {python, script("aiopg_cursor.py")}},
      {"ruby-pg", {"ruby", "-e", "require 'pg'"}, {"ruby", script("ruby_pg.rb")}},
      {"Sequel", {"ruby", "-e", "require 'sequel'; require 'pg'"}, {"ruby", script("sequel_listen.rb")}},
      {"Action Cable with its recipe",
       {"ruby", "-e", "require 'action_cable'; require 'pg'"},
       {"ruby", script("action_cable.rb")}},
      {"Graphile Worker's pool with its recipe",
       {"node", "-e", "require('pg')"},
       {"node", script("graphile_pool.js")}},
      {"node-postgres", {"node", "-e", "require('pg')"}, {"node", script("node_pg.js")}},
      {"postgres.js", {"node", "-e", "require('postgres')"}, {"node", script("postgres_js.js")}},
      {"DBD::Pg", {"perl", "-MDBD::Pg", "-e", "1"}, {"perl", script("dbd_pg.pl")}},
      {"PHP pgsql",
       {"php", "-r", "exit(function_exists('pg_get_notify') ? 0 : 1);"},
       {"php", script("php_pgsql.php")}},
  };
}

// Node looks where scripts/test installs what Debian does not bring.
process_options in_node(std::vector<std::string> argv) {
  return {.argv = std::move(argv), .env = {{"NODE_PATH", PGWAKE_NODE_MODULES ":/usr/share/nodejs"}}};
}

bool installed(const driver& d) {
  try {
    return run(in_node(d.probe)).exit_code == 0;
  } catch (const std::exception&) {
    return false;
  }
}

class client {
 public:
  client(const driver& d, const std::string& conninfo) : child_(in_node(with(d.command, conninfo))) {}

  // What it has got since, in order.
  std::vector<std::string> got() const {
    std::vector<std::string> payloads;
    const auto text = child_.out();
    for (std::size_t at = 0; at < text.size();) {
      const auto end = std::min(text.find('\n', at), text.size());
      const auto line = text.substr(at, end - at);
      if (line.starts_with("got ")) payloads.push_back(line.substr(4));
      at = end + 1;
    }
    return payloads;
  }
  std::size_t ready() const { return count_of(child_.out(), "ready\n"); }
  std::string said() const { return child_.out().substr(0, 2'000) + child_.err().substr(0, 2'000); }

 private:
  static std::vector<std::string> with(std::vector<std::string> command, const std::string& conninfo) {
    command.push_back(conninfo);
    return command;
  }
  process child_;
};

}  // namespace

TEST_CASE(
    "P1 to P19: drivers, unchanged but for their host, through restarts of the hub and of its session") {
  rig r({.arguments = {"--front-door", "--drain-grace", "300ms"}});
  const auto folder = r.hub().socket().substr(0, r.hub().socket().rfind('/'));
  std::size_t tried = 0;
  for (const auto& d : drivers()) {
    if (!installed(d)) {
      std::cerr << "skipped: " << d.name << " is not installed\n";
      continue;
    }
    ++tried;
    client c(d, "host=" + folder + " port=5432 user=app dbname=" + r.database());
    const auto check = [&](bool good, const char* what) {
      INFO(d.name << ": " << what << "\n" << c.said() << r.hub().log());
      REQUIRE(good);
    };
    check(eventually(20s, [&] { return c.ready() == 1; }), "connects and listens");
    auto publisher = r.publisher();
    std::vector<std::string> sent;
    for (int i = 0; i < 1'000; ++i) {
      sent.push_back("p" + std::to_string(i));
      publisher.notify("drivers", sent.back());
    }
    check(eventually(20s, [&] { return c.got().size() >= sent.size(); }), "gets a thousand payloads");
    check(c.got() == sent, "in order, each once");
    check(r.terminate(), "the hub's session ends");
    check(eventually(20s, [&] { return c.ready() == 2; }), "listens again after the gap");
    publisher.notify("drivers", "after the gap");
    check(eventually(20s, [&] { return c.got().back() == "after the gap"; }),
          "gets what comes after the gap");
    r.hub().stop();
    r.hub().start();
    REQUIRE(r.hub().await_health());
    check(eventually(30s, [&] { return c.ready() == 3; }), "listens again after the hub's restart");
    publisher.notify("drivers", "after the restart");
    check(eventually(20s, [&] { return c.got().back() == "after the restart"; }), "gets what comes after it");
    check(c.got().size() == sent.size() + 2, "nothing else");
  }
  CHECK(r.census() == 1);
  std::cerr << "drivers tried: " << tried << "\n";
}
