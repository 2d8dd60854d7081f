// The hub's place on its host: its lock, its socket's folder, signals, names that do not come.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>

#include "integration/rig.hpp"
#include "support/sanitizer.hpp"

using namespace pgwake::test;
namespace fs = std::filesystem;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

int listen_at(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || listen(fd, 10) != 0)
    throw_errno("listen");
  return fd;
}

hub_options at(const std::string& socket, const std::string& database) {
  return {.database = cluster::shared().conninfo(database), .socket = socket};
}

}  // namespace

TEST_CASE("K2: a lock file that is another file is refused and left as it is") {
  const temp_dir home;
  write_file(home / "precious", "much\n", 0600);
  const auto lock = home / "hub.sock.lock";
  const std::string kind = GENERATE(as<std::string>(), "hard link", "symbolic link", "FIFO", "folder");
  if (kind == "hard link") REQUIRE(link((home / "precious").c_str(), lock.c_str()) == 0);
  if (kind == "symbolic link") REQUIRE(symlink((home / "precious").c_str(), lock.c_str()) == 0);
  if (kind == "FIFO") REQUIRE(mkfifo(lock.c_str(), 0600) == 0);
  if (kind == "folder") REQUIRE(mkdir(lock.c_str(), 0700) == 0);
  const auto result = run(pgwaked_command({"run", "--socket", home / "hub.sock"}), 10s);
  INFO(kind << ": " << result.err);
  CHECK(result.exit_code == 1);
  CHECK(has(result.err, "hub.sock.lock"));
  CHECK(read_file(home / "precious") == "much\n");
  CHECK_FALSE(fs::exists(home / "hub.sock"));
}

TEST_CASE("K2: a hub whose place another took says so and stops, and the other serves on") {
  const auto database = cluster::shared().new_database();
  const temp_dir home;
  const auto path = home / "hub.sock";
  hub_daemon first(at(path, database));
  first.child().signal(SIGSTOP);
  fs::remove(path);
  fs::remove(path + ".lock");
  hub_daemon second(at(path, database));
  first.child().signal(SIGCONT);
  CHECK(first.child().wait(15s) == 1);
  CHECK(first.logs("event=displaced"));
  CHECK(second.running());
  auto worker = second.connect_v1();
  worker.subscribe("c");
}

TEST_CASE("K2: a hub whose lock file is removed locks a new one, so that no second one starts") {
  const auto database = cluster::shared().new_database();
  const temp_dir home;
  const auto path = home / "hub.sock";
  hub_daemon hub(at(path, database));
  fs::remove(path + ".lock");
  REQUIRE_EVENTUALLY(fs::exists(path + ".lock"), 10s);
  const auto second = run(pgwaked_command({"run", "--socket", path}), 10s);
  CHECK(second.exit_code == 1);
  CHECK(has(second.err, "another hub serves"));
  CHECK(hub.running());
}

TEST_CASE("K2: a hub whose socket's folder is removed makes it again, or says so once and tries on") {
  const auto database = cluster::shared().new_database();
  const temp_dir home;
  const auto parent = home / "run";
  const auto folder = parent + "/shop";
  fs::create_directories(folder);
  REQUIRE(chmod(folder.c_str(), 0750) == 0);
  hub_daemon hub(at(folder + "/hub.sock", database));
  auto worker = hub.connect_v1();
  fs::remove_all(folder);
  REQUIRE(hub.await_accepting(10s));
  struct stat s {};
  REQUIRE(stat(folder.c_str(), &s) == 0);
  CHECK((s.st_mode & 07777U) == 0750);
  CHECK(fs::exists(folder + "/hub.sock.lock"));
  CHECK(hub.logs("event=\"socket bound again\""));
  fs::remove_all(parent);
  REQUIRE(hub.child().wait_for_err("event=\"socket lost\"", 10s));
  worker.drain(2500ms);  // it tries once a second
  CHECK(count_of(hub.log(), "event=\"socket lost\"") == 1);
  CHECK(hub.logs("what_to_do="));
  fs::create_directories(folder);
  REQUIRE(hub.await_accepting(10s));
  CHECK(hub.child().wait_for_err("event=\"socket is back\"", 5s));
  worker.until_pong();
}

TEST_CASE("K2: a socket that the service manager made and somebody removed is said with what to do") {
  const auto database = cluster::shared().new_database();
  const temp_dir home;
  const auto path = home / "hub.sock";
  const int fd = listen_at(path);
  auto options = at(path, database);
  options.wrapper = {"sh", "-c", "LISTEN_PID=$$ exec \"$0\" \"$@\""};
  options.env = {{"LISTEN_FDS", "1"}};
  options.descriptors = {{fd, 3}};
  hub_daemon hub(options);
  close(fd);
  fs::remove(path);
  REQUIRE(hub.child().wait_for_err("event=\"socket lost\"", 10s));
  CHECK(hub.logs("systemctl start pgwaked@NAME.socket"));
  auto job = pgwaked_command({"status", "--socket", path});
  const auto status = run(std::move(job), 10s);
  CHECK(status.exit_code == 1);
  CHECK(has(status.err, "was removed: nobody can reach it"));
  CHECK(has(status.err, "systemctl start pgwaked@NAME.socket"));
  CHECK_FALSE(has(status.err, "stopping"));
}

TEST_CASE(
    "K2: a hub whose folder its service manager makes stops with 1 once it is gone for good, to get a new "
    "one") {
  const auto database = cluster::shared().new_database();
  const temp_dir home;
  const auto parent = home / "run";
  const auto folder = parent + "/shop";
  fs::create_directories(folder);
  auto options = at(folder + "/hub.sock", database);
  options.env = {{"NOTIFY_SOCKET", home / "nobody"}, {"RUNTIME_DIRECTORY", "/run/other:" + folder}};
  options.arguments.insert(options.arguments.end(), {"--drain-grace", "10s"});
  hub_daemon hub(options);
  auto worker = hub.connect_v1();
  worker.subscribe("c");
  fs::remove_all(folder);  // which it can make again
  REQUIRE(hub.await_accepting(10s));
  fs::remove_all(parent);
  while (const auto got = worker.next(10s))  // told, so that it listens itself before
    if (got->flag("draining")) break;
  const auto status = run(pgwaked_command({"status", "--socket", folder + "/hub.sock"}), 10s);
  CHECK(status.exit_code != 0);
  worker.close();
  CHECK(hub.child().wait(15s) == 1);
  CHECK(hub.logs("event=\"socket folder removed\""));
  CHECK(hub.logs("event=draining reason=\"socket folder removed\""));
}

TEST_CASE("K2: another process on the path is told from a hub that stands still") {
  const auto database = cluster::shared().new_database();
  const temp_dir home;
  const auto path = home / "hub.sock";
  hub_daemon hub(at(path, database));
  hub.child().signal(SIGSTOP);  // it would bind again at once
  fs::remove(path);
  const int fd = listen_at(path);
  hub.child().signal(SIGCONT);
  const auto status = run(pgwaked_command({"status", "--socket", path}), 20s);
  INFO(status.err);
  CHECK(has(status.err, "process " + std::to_string(getpid())));
  CHECK(has(status.err, "process " + std::to_string(hub.child().pid())));
  CHECK_FALSE(has(status.err, "stands still"));
  CHECK(hub.child().wait_for_err("event=\"socket lost\"", 10s));
  CHECK(hub.logs("stop what listens there instead"));
  close(fd);
  REQUIRE(hub.await_accepting(10s));  // a dead socket is replaced
  hub.child().signal(SIGSTOP);
  const auto still = run(pgwaked_command({"status", "--socket", path}), 20s);
  CHECK(has(still.err, "stands still"));
  hub.child().signal(SIGCONT);
}

TEST_CASE("signals that mean nothing to the hub are logged and change nothing; SIGQUIT stops at once") {
  rig r({.arguments = {"--drain-grace", "30s"}});
  auto worker = r.worker();
  worker.subscribe("c");
  for (const int number : {SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGPWR})
    r.hub().child().signal(number);
  for (const auto* name : {"SIGUSR1", "SIGUSR2", "SIGALRM", "SIGPWR"})
    CHECK(r.hub().child().wait_for_err(std::string("event=\"signal ignored\" signal=") + name, 5s));
  r.notify("c", "x");
  worker.expect_wake("c", "x");
  r.hub().child().signal(SIGQUIT);
  CHECK(worker.expect("bye").code() == "shutdown");
  CHECK(r.hub().child().wait(10s) == 0);
  CHECK(r.hub().logs("event=\"stopping at once\" signal=SIGQUIT"));
}

TEST_CASE("K1: while the name service hangs a reload waits, and the hub serves on by the old rules") {
  if (sanitized) return;  // which has to be loaded first itself
  const auto database = cluster::shared().new_database();
  const temp_dir home;
  write_file(home / "hub.toml", "allow = [\"user:root\", \"uid:" + std::to_string(geteuid()) + "\"]\n", 0600);
  auto options = at(home / "hub.sock", database);
  options.arguments = {"--config", home / "hub.toml"};
  options.env = {{"LD_PRELOAD", SLOW_NAMES}, {"SLOW_NAMES", home / "slow"}};
  hub_daemon hub(options);
  auto worker = hub.connect_v1();
  worker.subscribe("c");
  write_file(home / "slow", "", 0600);
  write_file(home / "hub.toml", "allow = [\"user:root c\", \"uid:" + std::to_string(geteuid()) + " c\"]\n",
             0600);
  hub.child().signal(SIGHUP);
  for (int i = 0; i < 3; ++i) {
    cluster::shared().notify("c", "x", database);
    worker.expect_wake("c", "x");
    worker.until_pong();
    hub.connect_v1().subscribe("other");
  }
  CHECK_FALSE(has(hub.log(), "reloaded"));
  fs::remove(home / "slow");
  REQUIRE(hub.child().wait_for_err("event=reloaded", 10s));
  auto late = hub.connect_v1();
  late.sub("other");
  CHECK(late.expect("nack").code() == "forbidden");
  // And a stop does not wait for names either.
  write_file(home / "slow", "", 0600);
  hub.child().signal(SIGHUP);
  CHECK(hub.stop(10s) == 0);
}

TEST_CASE("a hub that is given no database says so") {
  hub_daemon hub({.until = readiness::accepting});
  CHECK(hub.child().wait_for_err("event=\"no database given\"", 5s));
  CHECK(hub.logs("what_to_do="));
}

TEST_CASE("an abstract socket is refused, not made as a file") {
  const temp_dir home;
  auto job = pgwaked_command({"run", "--socket", "@x"});
  job.directory = home.path();
  const auto result = run(std::move(job), 10s);
  CHECK(result.exit_code == 2);
  CHECK(has(result.err, "abstract"));
  CHECK(fs::is_empty(home.path()));
}
