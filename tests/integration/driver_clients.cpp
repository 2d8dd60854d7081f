#include "integration/driver_clients.hpp"

#include <catch2/catch.hpp>
#include <iostream>
#include <stdexcept>

namespace pgwake::test {
namespace {

using runs = driver::runs;

std::string script(const char* name) { return std::string(PGWAKE_SOURCE_DIR) + "/tests/drivers/" + name; }
std::string built(const char* name) { return std::string(PGWAKE_DRIVERS) + "/bin/" + name; }

driver python(const char* name, runs when, const char* module, const char* file) {
  const std::string program = "/usr/bin/python3";
  return {name, when, {program, "-c", std::string("import ") + module}, {program, script(file)}};
}
driver ruby(const char* name, runs when, const std::string& gems, const char* file) {
  return {name, when, {"ruby", "-e", gems}, {"ruby", script(file)}};
}
driver node(const char* name, runs when, const char* module, const char* file) {
  return {name,
          when,
          {"node", "-e", std::string("require.resolve('") + module + "'); require('pg')"},
          {"node", script(file)}};
}
driver perl(const char* name, runs when, const char* module, const char* file) {
  return {name, when, {"perl", std::string("-M") + module, "-e", "1"}, {"perl", script(file)}};
}
driver program(const char* name, runs when, const char* file) {
  return {name, when, {"test", "-x", built(file)}, {built(file)}};
}

// Java's packages are too large to be installed for one driver.
driver java(const char* name, const char* file) {
  const std::vector<std::string> command{
      "java", "-cp", "/usr/share/java/postgresql.jar:/usr/share/java/junixsocket-common.jar", script(file)};
  auto probe = command;
  probe.emplace_back("--probe");
  return {name, runs::where_installed, std::move(probe), command};
}

// Node looks where the fixture has put what Debian does not bring.
process_options in_node(std::vector<std::string> argv) {
  return {.argv = std::move(argv), .env = {{"NODE_PATH", PGWAKE_DRIVERS "/node_modules:/usr/share/nodejs"}}};
}

process_options with(const driver& d, const std::string& door, const std::string& database) {
  auto options = in_node(d.command);
  options.argv.push_back(door);
  if (!database.empty()) options.env.emplace_back("DATABASE", database);
  return options;
}

bool installed(const driver& d) {
  try {
    return run(in_node(d.probe)).exit_code == 0;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

const std::vector<driver>& all_drivers() {
  static const std::vector<driver> drivers{
      {"psql", runs::usually, {"psql", "--version"}, {"sh", script("psql_loop.sh")}},
      python("psycopg 3", runs::usually, "psycopg", "psycopg3.py"),
      python("psycopg 3 in transactions", runs::usually, "psycopg", "psycopg3_transaction.py"),
      python("psycopg 2", runs::usually, "psycopg2", "psycopg2_select.py"),
      python("asyncpg", runs::usually, "asyncpg", "asyncpg_pool.py"),
      ruby("ruby-pg", runs::usually, "require 'pg'", "ruby_pg.rb"),
      node("node-postgres", runs::usually, "pg", "node_pg.js"),
      python("psycopg 3's pool", runs::in_full, "psycopg_pool", "psycopg3_pool.py"),
      python("SQLAlchemy", runs::in_full, "sqlalchemy, psycopg2", "sqlalchemy_listen.py"),
      python("aiopg", runs::in_full, "aiopg", "aiopg_cursor.py"),
      python("PyGreSQL", runs::in_full, "pg", "pygresql_notify.py"),
      ruby("Sequel", runs::in_full, "require 'sequel'; require 'pg'", "sequel_listen.rb"),
      ruby("Active Record", runs::in_full, "require 'active_record'; require 'pg'", "active_record.rb"),
      ruby("Action Cable with its recipe", runs::in_full, "require 'action_cable'; require 'pg'",
           "action_cable.rb"),
      node("postgres.js", runs::in_full, "postgres", "postgres_js.js"),
      node("pg-listen", runs::in_full, "pg-listen", "pg_listen.js"),
      node("pg-pubsub", runs::in_full, "@graphile/pg-pubsub", "pg_pubsub.js"),
      node("pg-promise", runs::in_full, "pg-promise", "pg_promise.js"),
      node("pg-boss with its recipe", runs::in_full, "pg-boss", "pg_boss.js"),
      node("Graphile Worker's pool with its recipe", runs::in_full, "pg", "graphile_pool.js"),
      perl("DBD::Pg", runs::in_full, "DBD::Pg", "dbd_pg.pl"),
      perl("Mojo::Pg", runs::in_full, "Mojo::Pg", "mojo_pg.pl"),
      {"PHP pgsql",
       runs::in_full,
       {"php", "-r", "exit(function_exists('pg_get_notify') ? 0 : 1);"},
       {"php", script("php_pgsql.php")}},
      {"Pgtcl", runs::in_full, {"tclsh", script("pgtcl.tcl"), "--probe"}, {"tclsh", script("pgtcl.tcl")}},
      program("libpqxx", runs::in_full, "libpqxx_listen"),
      program("lib/pq", runs::in_full, "go_pq"),
      program("pgx 4", runs::in_full, "go_pgx"),
      java("pgjdbc with junixsocket", "PgjdbcListen.java"),
  };
  return drivers;
}

const std::vector<driver>& job_libraries() {
  static const std::vector<driver> libraries{
      node("pg-boss", runs::in_full, "pg-boss", "pg_boss_jobs.js"),
      node("Graphile Worker", runs::in_full, "graphile-worker", "graphile_jobs.js"),
  };
  return libraries;
}

std::vector<const driver*> chosen(const std::vector<driver>& from) {
  std::vector<const driver*> some;
  for (const auto& d : from) {
    if (d.when != runs::usually && !in_full()) continue;
    if (installed(d)) {
      some.push_back(&d);
    } else if (d.when != runs::where_installed) {
      std::cerr << "skipped: " << d.name << " is not installed\n";
      INFO(d.name << " is not installed: is its package in packages_all, or in make-driver-clients?");
      CHECK_FALSE(in_full());
    }
  }
  return some;
}

const driver& driver_named(std::string_view name) {
  const auto& all = all_drivers();
  const auto it = std::find_if(all.begin(), all.end(), [&](const auto& d) { return name == d.name; });
  if (it == all.end()) throw std::invalid_argument("no driver is called " + std::string(name));
  return *it;
}

driver_client::driver_client(const driver& d, const std::string& door, const std::string& database)
    : name_(d.name), child_(with(d, door, database)) {}

std::vector<std::string> driver_client::lines() const {
  std::vector<std::string> all;
  const auto text = child_.out();
  for (std::size_t at = 0;;) {
    const auto end = text.find('\n', at);
    if (end == std::string::npos) return all;
    all.push_back(text.substr(at, end - at));
    at = end + 1;
  }
}

std::vector<std::string> driver_client::got() const {
  std::vector<std::string> payloads;
  for (const auto& line : lines())
    if (line.starts_with("got ")) payloads.push_back(line.substr(4));
  return payloads;
}

std::string driver_client::said() const {
  const auto out = child_.out();
  return out.substr(0, 1'000) + "\n...\n" + out.substr(std::max<std::size_t>(out.size(), 1'000) - 1'000) +
         child_.err().substr(0, 2'000);
}

}  // namespace pgwake::test
