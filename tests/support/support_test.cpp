#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <set>
#include <string>

#include "support/cluster.hpp"
#include "support/eventually.hpp"
#include "support/files.hpp"
#include "support/frame_socket.hpp"
#include "support/pgbouncer.hpp"
#include "support/process.hpp"
#include "support/programs.hpp"
#include "support/skip.hpp"

extern char** environ;

using namespace pgwake::test;

namespace {

bool exists(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0;
}

// Ended counts as such even before whoever has inherited it takes notice: on a busy machine that takes
// seconds.
bool runs(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const auto name_end = text.rfind(')');
  return name_end != std::string::npos && text.compare(name_end, 3, ") Z") != 0;
}

}  // namespace

TEST_CASE("support: a temporary directory is short and vanishes") {
  std::string path;
  {
    const temp_dir directory;
    path = directory.path();
    CHECK(path.size() < 20);
    write_file(directory / "x", "content");
    CHECK(read_file(directory / "x") == "content");
  }
  CHECK_FALSE(exists(path));
}

TEST_CASE("support: a program in a folder that is closed to others is run by another user") {
  if (geteuid() != 0) SKIP_CASE(needs_root);
  const temp_dir closed;
  chmod(closed.path().c_str(), 0700);
  const auto program = closed / "echo";
  run_ok({.argv = {"cp", "/bin/echo", program}});
  chmod(program.c_str(), 0700);
  CHECK(run_ok({.argv = {program, "here"}, .account = "nobody"}) == "here\n");
  CHECK(for_every_user(program) == for_every_user(program));
  CHECK(for_every_user("/bin/echo") == "/bin/echo");
}

TEST_CASE("support: variables of libpq and pgwake reach no test, but those meant for tests") {
  const auto left = run_ok({.argv = {"/proc/self/exe", "[.environment]"},
                            .env = {{"PGSERVICE", "x"},
                                    {"PGHOSTADDR", "::1"},
                                    {"PGREQUIREPEER", "x"},
                                    {"PGTARGETSESSIONATTRS", "standby"},
                                    {"PGWAKE_SOCKET", "/x"},
                                    {"PGWAKED", "/kept"},
                                    {"PGWAKE_TEST_KEPT", "1"}}});
  CHECK(left.find("PGSERVICE") == std::string::npos);
  CHECK(left.find("left: PGWAKED PGWAKE_TEST_KEPT\n") != std::string::npos);
}

TEST_CASE("[.environment]", "[.environment]") {
  std::set<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string name(*entry, std::string(*entry).find('='));
    if (name.starts_with("PG") && name != "PGWAKE_TEST_POSTGRES") names.insert(name);
  }
  std::cout << "left:";
  for (const auto& name : names) std::cout << ' ' << name;
  std::cout << '\n';
}

TEST_CASE("support: a limit grows with the machine's load, and never shrinks") {
  const auto limit = at_load(100ms);
  CHECK(limit >= 100ms);
  CHECK(limit <= 2s);
}

TEST_CASE("support: a process that dies leaves neither children nor directories") {
  // This program again, as the victim: it makes a child and a directory, says so, and is killed.
  process victim({.argv = {"/proc/self/exe", "[.victim]"}});
  REQUIRE(victim.wait_for_out("ready\n", 10s));
  const std::string said = victim.out();
  const std::string directory = said.substr(said.find("/tmp/pgw-"), 15);
  const int child = std::stoi(said.substr(said.find("child=") + 6));
  REQUIRE(exists(directory));
  victim.kill();
  REQUIRE_EVENTUALLY(!runs(child), 10s);
  REQUIRE_EVENTUALLY(!exists(directory), 10s);
}

TEST_CASE("support: the victim of the test above", "[.victim]") {
  const temp_dir directory;
  process child({.argv = {"sleep", "60"}});
  const std::string text = directory.path() + " child=" + std::to_string(child.pid()) + " ready\n";
  REQUIRE(write(1, text.data(), text.size()) > 0);
  child.wait(60s);
}

TEST_CASE("support: a process is watched, measured and ended") {
  process shell(
      {.argv = {"sh", "-c",
                "echo out; echo err >&2; ulimit -n; umask; echo $X; read line; echo $line; exec sleep 60"},
       .env = {{"X", "from the environment"}},
       .mask = 027,
       .max_descriptors = 77,
       .input = "a line\n"});
  REQUIRE(shell.wait_for_out("a line", 5s));
  CHECK(shell.out() == "out\n77\n0027\nfrom the environment\na line\n");
  CHECK(shell.err() == "err\n");
  CHECK(shell.running());
  CHECK(shell.rss_kib() > 0);
  CHECK(shell.cpu_time() < 1s);
  CHECK(shell.descriptor_count() >= 3);
  CHECK(shell.thread_count() == 1);
  CHECK_FALSE(shell.wait(20ms).has_value());
  shell.signal(SIGTERM);
  CHECK(shell.wait(5s) == 128 + SIGTERM);

  CHECK(run({.argv = {"sh", "-c", "exit 7"}}).exit_code == 7);
  CHECK(run({.argv = {"/nonexistent"}}).exit_code == 127);
  const auto began = clock::now();
  process quick({.argv = {"true"}});
  CHECK_FALSE(quick.wait_for_out("never", 10s));
  CHECK(clock::now() - began < at_load(5s));
}

TEST_CASE("support: a cluster of its own: settings, encodings, census, notifications") {
  auto& db = cluster::shared();
  CHECK(db.value("SHOW fsync") == "off");
  db.create_database("latin", "LATIN1");
  db.create_database("bytes", "SQL_ASCII");
  db.create_database("taiwan", "EUC_TW");
  db.create_database("win", "WIN1252");
  CHECK(db.value("SHOW server_encoding", "latin") == "LATIN1");
  CHECK(db.value("SHOW server_encoding", db.new_database()) == "UTF8");

  connection listener(db.conninfo() + " application_name='pgwaked@somewhere'");
  CHECK(db.census() == 1);
  CHECK(db.backend_pids() == std::vector<int>{listener.backend_pid()});
  const std::string odd = R"(x"; DROP TABLE t; --)";
  listener.exec("LISTEN " + listener.quoted(odd));
  db.notify(odd, "hello");
  const auto heard = listener.next_notification(10s);
  REQUIRE(heard.has_value());
  CHECK(heard->channel == odd);
  CHECK(heard->payload == "hello");
  CHECK_FALSE(listener.next_notification(10ms).has_value());

  CHECK(db.terminate_all() == 1);
  REQUIRE_EVENTUALLY(db.census() == 0, 10s);
  CHECK_THROWS_AS(listener.exec("SELECT 1"), sql_error);
  try {
    db.exec("SELECT 1/0");
    FAIL("division by zero went well");
  } catch (const sql_error& error) {
    CHECK(error.sqlstate == "22012");
  }
  db.set("work_mem", "5MB");
  REQUIRE_EVENTUALLY(db.value("SHOW work_mem") == "5MB", 10s);
}

TEST_CASE(
    "support: a cluster restarts on its port, with TLS, a system identifier of its own, and leaves nothing") {
  std::string directory;
  pid_t postmaster = 0;
  {
    cluster db({.settings = {{"max_connections", "23"}}, .tls = true, .own_system_id = true});
    directory = db.directory();
    postmaster = db.server().pid();
    CHECK(db.value("SHOW max_connections") == "23");
    CHECK(db.value("SELECT system_identifier FROM pg_control_system()") !=
          cluster::shared().value("SELECT system_identifier FROM pg_control_system()"));
    connection secure(db.conninfo() + " sslmode=verify-full sslrootcert=" + db.ca_file());
    CHECK(secure.value("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()") == "t");
    db.restart(stop_mode::immediate);
    CHECK(db.value("SELECT 1") == "1");
    CHECK_THROWS_AS(secure.exec("SELECT 1"), sql_error);
    db.stop();
    CHECK_FALSE(db.running());
    db.start();
    postmaster = db.server().pid();
  }
  CHECK(::kill(postmaster, 0) != 0);
  CHECK_FALSE(exists(directory));
}

TEST_CASE("support: a standby follows, refuses LISTEN, and is promoted") {
  auto& primary = cluster::shared();
  auto standby = primary.make_standby();
  CHECK(standby->value("SELECT pg_is_in_recovery()") == "t");
  CHECK_THROWS_AS(standby->exec("LISTEN c"), sql_error);
  primary.exec("CREATE TABLE replicated()");
  REQUIRE_EVENTUALLY(standby->value("SELECT to_regclass('replicated') IS NOT NULL") == "t", 5s);
  standby->promote();
  CHECK(standby->value("SELECT pg_is_in_recovery()") == "f");
}

TEST_CASE("support: PgBouncer pools transactions or sessions") {
  auto& db = cluster::shared();
  SECTION("transaction mode: the backend is not who libpq thinks") {
    const pgbouncer pooler(db, "transaction");
    connection through(pooler.conninfo());
    CHECK(std::stoi(through.value("SELECT pg_backend_pid()")) != through.backend_pid());
  }
  SECTION("session mode hears its notifications") {
    const pgbouncer pooler(db, "session");
    connection through(pooler.conninfo());
    through.exec("LISTEN c");
    db.notify("c", "x");
    CHECK(through.next_notification(10s).has_value());
  }
}

TEST_CASE("support: frames are cut from any pieces") {
  frame_reader reader;
  const std::string bytes = frame_of(R"({"t":"wake","q":"c","p":null})") + frame_of("{}");
  std::vector<std::string> found;
  for (const char byte : bytes) {
    reader.feed({&byte, 1});
    while (auto text = reader.next()) found.push_back(*text);
  }
  REQUIRE(found.size() == 2);
  const frame wake(found[0]);
  CHECK(wake.t() == "wake");
  CHECK(wake.q() == "c");
  CHECK_FALSE(wake.p().has_value());
  CHECK(wake.has("p"));
  CHECK_FALSE(wake.has("gap"));
}
