// Connecting, with everything that may never end or cannot be had: files, names, threads, hosts. The loop
// waits for none of it, and each is a failed attempt like any other.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <thread>

#include "integration/rig.hpp"
#include "support/sanitizer.hpp"

using namespace pgwake::test;

namespace {

void make_fifo(const std::string& path) {
  unlink(path.c_str());
  if (mkfifo(path.c_str(), 0644) != 0) throw_errno("mkfifo");
}

// Pings are answered at once, as often as it takes until `happened`.
template <typename Condition>
bool answers_until(raw_worker& worker, milliseconds patience, Condition&& happened) {
  const auto until = deadline_in(patience);
  while (clock::now() < until) {
    if (time_of([&] { worker.until_pong(10s); }) > at_load(1s)) return false;
    if (happened()) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

// A hub that has its server from a service file, which may turn into a FIFO that nobody writes.
struct service_rig {
  explicit service_rig(std::vector<std::string> wrapper = {})
      : file(directory / "services"),
        hub({.database = "service=app user=postgres dbname=" + written(),
             .arguments = {"--connect-timeout", "2s"},
             .env = {{"PGSERVICEFILE", file}},
             .wrapper = std::move(wrapper)}),
        worker(hub.connect_v1()) {
    worker.subscribe("c");
    threads = hub.child().thread_count();
  }

  void lose_session_and_file() {
    make_fifo(file);
    pg.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '" + database +
            "' AND pid <> pg_backend_pid()");
  }
  void give_file_back() {
    unlink(file.c_str());
    written();
  }
  bool log_has(const std::string& words) const { return hub.log().find(words) != std::string::npos; }
  // The database's name.
  const std::string& written() {
    write_file(file, "[app]\nhost=127.0.0.1\nport=" + std::to_string(pg.port()) + "\n");
    return database;
  }

  cluster& pg = cluster::shared();
  std::string database = pg.new_database();
  temp_dir directory{};
  std::string file;
  hub_daemon hub;
  raw_worker worker;
  int threads = 0;
};

}  // namespace

TEST_CASE("U2: a database_file that does not come is a failed attempt, and stops nobody") {
  auto& pg = cluster::shared();
  const auto database = pg.new_database();
  const temp_dir directory;
  const auto file = directory / "database";
  write_file(file, pg.conninfo(database));
  hub_daemon hub({.arguments = {"--database-file", file}});
  auto worker = hub.connect_v1();
  worker.subscribe("c");
  make_fifo(file);
  pg.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '" + database +
          "' AND pid <> pg_backend_pid()");
  REQUIRE(answers_until(worker, 15s, [&] { return hub.log().find("FIFO") != std::string::npos; }));
  CHECK(hub.logs(file));
  unlink(file.c_str());
  write_file(file, pg.conninfo(database));
  CHECK(worker.expect("wake", "c", 20s).gap() == "reconnect");
  make_fifo(file);
  pg.terminate_all();
  worker.close();
  CHECK(time_of([&] { CHECK(hub.stop() == 0); }) < at_load(5s));
}

TEST_CASE("U2: a file that libpq reads and that never comes costs threads up to a bound, and nothing else") {
  service_rig r;
  r.lose_session_and_file();
  REQUIRE(answers_until(r.worker, 15s, [&] { return r.log_has("took too long"); }));
  if (in_full()) REQUIRE(answers_until(r.worker, 30s, [&] { return r.log_has("still wait"); }));
  CHECK(r.hub.child().thread_count() <= r.threads + 4);
  r.give_file_back();
  CHECK(r.worker.expect("wake", "c", 20s).gap() == "reconnect");
  r.worker.close();
  CHECK(time_of([&] { CHECK(r.hub.stop() == 0); }) < at_load(5s));
}

TEST_CASE("U2, U5: no thread to be had is a failed attempt like any other") {
  if (sanitized) return;  // whose memory has no such limits
  // A thread's stack is as large as the limit says. One attempt hangs in a file and keeps its own; another
  // fits no more once the address space has a limit.
  service_rig r({"sh", "-c", "ulimit -s 1048576; exec \"$@\"", "sh"});
  const auto pid = r.hub.child().pid();
  const auto size = [&] {
    const auto status = read_file("/proc/" + std::to_string(pid) + "/status");
    return std::stoul(status.substr(status.find("VmSize:") + 7)) * 1024;
  };
  r.lose_session_and_file();
  REQUIRE_EVENTUALLY(r.hub.child().thread_count() > r.threads, 10s);
  rlimit before{};
  REQUIRE(prlimit(pid, RLIMIT_AS, nullptr, &before) == 0);
  const rlimit tight{size() + (256UL << 20U), before.rlim_max};
  REQUIRE(prlimit(pid, RLIMIT_AS, &tight, nullptr) == 0);
  REQUIRE(answers_until(r.worker, 15s, [&] { return r.log_has("no thread"); }));
  REQUIRE(prlimit(pid, RLIMIT_AS, &before, nullptr) == 0);
  r.give_file_back();
  CHECK(r.worker.expect("wake", "c", 15s).gap() == "reconnect");
}

TEST_CASE("U1: connect_timeout=0 and a host that swallows everything: an operator's reconnect gives it up") {
  auto& pg = cluster::shared();
  fault_proxy proxy(pg);
  const auto database = pg.new_database();
  hub_daemon hub({.database = proxy.conninfo(database) + " connect_timeout=0"});
  auto worker = hub.connect_v1();
  worker.subscribe("c");
  proxy.hang_connects();
  proxy.reset_all();
  worker.await_health(false, 5s);
  REQUIRE_EVENTUALLY(proxy.accepted() == 2, 5s);
  proxy.hang_connects(false);
  SECTION("reconnect") {
    worker.send_json(R"({"t":"control","do":"reconnect"})");
    CHECK(worker.expect("control", 3s).flag("ok"));
    CHECK(worker.expect("wake", "c", 5s).gap() == "reconnect");
  }
  SECTION("reload") {
    hub.child().signal(SIGHUP);
    CHECK(worker.expect("wake", "c", 5s).gap() == "reconnect");
  }
  if (in_full()) {
    SECTION("a bound of its own") { CHECK(worker.expect("wake", "c", 45s).gap() == "reconnect"); }
  }
}

TEST_CASE("U1: each address of a name gets its time, the next is tried, and a refusal ends it") {
  auto& pg = cluster::shared();
  fault_proxy silent(pg);
  silent.hang_connects();
  // localhost is ::1 and 127.0.0.1, or one of them: the port decides.
  hub_daemon hub({.database = "host=localhost,localhost port=" + std::to_string(silent.port()) + "," +
                              std::to_string(pg.port()) + " dbname=postgres user=postgres connect_timeout=2",
                  .until = readiness::accepting});
  CHECK(hub.await_health(true, 10s));
}

TEST_CASE("U1: a password file that others may read is not used, and the log says so in its own words") {
  cluster pg;
  pg.exec("CREATE ROLE app LOGIN PASSWORD 'secret'");
  pg.set_hba("local all postgres trust\nhost all app 127.0.0.1/32 scram-sha-256\n");
  const temp_dir directory;
  const auto passfile = directory / "pgpass";
  write_file(passfile, "127.0.0.1:*:*:app:secret\n", 0644);
  hub_daemon hub({.database = pg.conninfo("postgres", "app") + " passfile=" + passfile,
                  .arguments = {"--log-format", "json"},
                  .until = readiness::accepting});
  REQUIRE_EVENTUALLY(hub.log().find("chmod 600") != std::string::npos, 10s);
  auto worker = hub.connect_v1();
  CHECK(worker.expect("status").string("reason") ==
        "login");  // libpq has no password, and the server wants one
  chmod(passfile.c_str(), 0600);
  hub.child().signal(SIGHUP);
  CHECK(hub.await_health(true, 10s));
  const auto log = hub.log();
  CHECK(count_of(log, "\n") == count_of(log, "{\""));  // not a line of libpq's among them
}

TEST_CASE("U3: whatever a role has as its defaults, the session serves, and checks leave no backend behind") {
  auto& pg = cluster::shared();
  const auto database = pg.new_database();
  const std::vector<std::string> defaults = {"client_min_messages = debug5",
                                             "client_min_messages = error",
                                             "search_path = evil, pg_catalog",
                                             "default_transaction_isolation = serializable",
                                             "default_transaction_deferrable = on",
                                             "default_transaction_read_only = on",
                                             "bytea_output = escape",
                                             "datestyle = 'SQL, DMY'",
                                             "intervalstyle = postgres_verbose",
                                             "extra_float_digits = -15",
                                             "standard_conforming_strings = off",
                                             "backslash_quote = off",
                                             "client_encoding = LATIN1",
                                             "application_name = 'not this'",
                                             "statement_timeout = '100ms'",
                                             "lock_timeout = '1ms'",
                                             "idle_session_timeout = '500ms'",
                                             "idle_in_transaction_session_timeout = '1ms'",
                                             "exit_on_error = on",
                                             "quote_all_identifiers = on",
                                             "row_security = off",
                                             "transform_null_equals = on",
                                             "timezone = 'Asia/Kathmandu'",
                                             "synchronous_commit = remote_apply",
                                             "check_function_bodies = off",
                                             "max_parallel_workers_per_gather = 0",
                                             "enable_seqscan = off",
                                             "session_replication_role = replica"};
  // Functions and operators that win over PostgreSQL's own where somebody's search_path has them first.
  pg.exec(
      "CREATE SCHEMA evil; GRANT USAGE ON SCHEMA evil TO PUBLIC;"
      "CREATE FUNCTION evil.no(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT false';"
      "CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.no);"
      "CREATE FUNCTION evil.pg_backend_pid() RETURNS int LANGUAGE sql AS 'SELECT 7';"
      "CREATE FUNCTION evil.count(anyelement) RETURNS bigint LANGUAGE sql AS 'SELECT 7::bigint'",
      database);
  pg.exec("CREATE ROLE moody LOGIN");
  // A writer that holds back safe snapshots: a deferrable transaction would wait for it.
  auto writer = pg.connect(database);
  writer.exec("CREATE TABLE t(n int)");
  writer.exec("BEGIN ISOLATION LEVEL SERIALIZABLE; INSERT INTO t VALUES (1)");
  for (const auto& one : defaults) pg.exec("ALTER ROLE moody SET " + one);
  pg.exec("ALTER ROLE moody RESET default_transaction_read_only");
  pg.exec("ALTER ROLE moody SET default_transaction_read_only = on");
  hub_daemon hub({.database = pg.conninfo(database, "moody"),
                  .arguments = {"--probe-interval", "300ms", "--probe-timeout", "2s"}});
  auto worker = hub.connect_v1();
  worker.subscribe("caf\xC3\xA9");
  pg.notify("caf\xC3\xA9", "payload \xC3\xA9", database);
  worker.expect_wake("caf\xC3\xA9", "payload \xC3\xA9");
  CHECK(worker.drain(1500ms).empty());  // probes are answered as they must be
  CHECK(pg.value("SELECT count(*) FROM pg_stat_activity WHERE usename = 'moody'") == "1");
  CHECK(hub.log().find("DEBUG") == std::string::npos);
  CHECK(hub.log().find("upstream lost") == std::string::npos);
  writer.exec("ROLLBACK");
}

TEST_CASE("U4: a check that is given up is cancelled: no backend is left that waits") {
  auto& pg = cluster::shared();
  const auto database = pg.new_database();
  hub_daemon hub({.database = pg.conninfo(database),
                  .arguments = {"--probe-interval", "300ms", "--probe-timeout", "500ms"},
                  .until = readiness::healthy});
  auto worker = hub.connect_v1();
  worker.subscribe("c");
  // A new session's first look at a function waits for this, and PostgreSQL does not look whether the client
  // is still there.
  auto holder = pg.connect(database);
  const auto mine = "datname = '" + database + "' AND application_name LIKE 'pgwaked@%'";
  holder.exec("SELECT count(*), pg_terminate_backend(0) FROM pg_stat_activity WHERE " +
              mine);  // known from now on
  holder.exec("BEGIN; LOCK TABLE pg_catalog.pg_proc IN ACCESS EXCLUSIVE MODE");
  holder.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE " + mine);
  worker.await_health(false, 10s);
  REQUIRE_EVENTUALLY(count_of(hub.log(), "reason=silent") > 0, 10s);
  for (int i = 0; i < 20; ++i) {
    CHECK(std::stoi(holder.value("SELECT count(*) FROM pg_stat_activity WHERE " + mine)) <= 3);
    std::this_thread::sleep_for(150ms);
  }
  holder.exec("ROLLBACK");
  CHECK(worker.expect("wake", "c", 15s).gap() == "reconnect");
}

TEST_CASE("U3, U4: a full notify queue, or a server that is slow to commit, is no sign of a dead session") {
  rig r({.through_proxy = true});
  auto worker = r.worker();
  worker.subscribe("c");
  SECTION("full") {
    // 54000: too many notifications in the NOTIFY queue.
    r.proxy().fail_query("NOTIFY \"pgwake.fence\"", "54000");
    r.proxy().reset_all();
    CHECK(worker.expect("wake", "c", 10s).gap() == "reconnect");
    CHECK(r.hub().logs("self check not possible"));
  }
  SECTION("slow") {
    r.proxy().hold_answer("NOTIFY \"pgwake.fence\"", 2s);
    r.proxy().reset_all();
    CHECK(worker.expect("wake", "c", 15s).gap() == "reconnect");
    r.proxy().hold_query("LISTEN \"late\"", 2s);
    worker.sub("late");
    worker.expect("ack", "late", 10s);
  }
  CHECK(r.proxy().accepted() == 2);
  r.notify("c", "x");
  worker.expect_wake("c", "x");
}
