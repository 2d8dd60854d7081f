// What a service manager passes and hears, without one: sockets by descriptor, messages to NOTIFY_SOCKET.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <future>
#include <sstream>

#include "support/cluster.hpp"
#include "support/files.hpp"
#include "support/hub_daemon.hpp"
#include "support/process.hpp"
#include "support/skip.hpp"

using namespace pgwake::test;

namespace {

int bound_socket(int type, const std::string& path) {
  const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  REQUIRE(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  if (type != SOCK_DGRAM) REQUIRE(listen(fd, 64) == 0);
  return fd;
}

// `pgwaked run` with a descriptor passed as its third, as a service manager would. `owner`: LISTEN_PID, by
// default the daemon's own.
process_options activated(const std::string& socket, int fd, const std::string& owner = "$$",
                          const std::string& count = "1") {
  auto options = pgwaked_command({"run", "--database", "host=/nonexistent", "--socket", socket});
  options.argv.insert(options.argv.begin(), {"/bin/sh", "-c",
                                             (fd < 0 ? "exec 3>&-; LISTEN_PID=" : "LISTEN_PID=") + owner +
                                                 " LISTEN_FDS=" + count + " exec \"$@\"",
                                             "sh"});
  if (fd >= 0) options.descriptors = {{fd, 3}};
  return options;
}

struct notify_listener {
  temp_dir home;
  int fd = bound_socket(SOCK_DGRAM, home / "notify");
  ~notify_listener() { ::close(fd); }
  notify_listener() {
    const timeval patience{5, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  std::string next() const {
    char buffer[4096];
    const auto n = recv(fd, buffer, sizeof buffer, 0);
    return n < 0 ? "nothing" : std::string(buffer, static_cast<std::size_t>(n));
  }
  std::string next_but(std::string_view ignored) const {
    for (int i = 0; i < 200; ++i)
      if (auto text = next(); !text.starts_with(ignored) && !text.starts_with("STATUS=")) return text;
    return "nothing else";
  }
};

}  // namespace

TEST_CASE("case 28: a passed socket is served, close-on-exec, and its path stays at exit") {
  const temp_dir home;
  const auto path = home / "s";
  const int fd = bound_socket(SOCK_STREAM, path);
  process hub(activated(path, fd));
  raw_worker worker(path);
  worker.hello("activated");
  const auto pid = std::to_string(hub.pid());
  std::istringstream info(read_file("/proc/" + pid + "/fdinfo/3"));
  std::string flags;
  for (std::string word; info >> word;)
    if (word == "flags:") info >> flags;
  REQUIRE_FALSE(flags.empty());
  CHECK((std::stol(flags, nullptr, 8) & O_CLOEXEC) != 0);
  struct stat before {};
  REQUIRE(stat(path.c_str(), &before) == 0);
  worker.close();
  hub.signal(SIGTERM);
  CHECK(hub.wait(10s) == 0);
  struct stat after {};
  REQUIRE(stat(path.c_str(), &after) == 0);
  CHECK(after.st_ino == before.st_ino);
  CHECK(can_connect(path));  // the socket itself is still ours: a worker would wait for the next hub
  ::close(fd);
}

TEST_CASE("case 28: LISTEN_PID of another process: its descriptors are not ours") {
  const temp_dir home;
  const auto elsewhere = home / "elsewhere";
  const int fd = bound_socket(SOCK_STREAM, elsewhere);
  const auto path = home / "s";
  process hub(activated(path, fd, "1"));
  REQUIRE(eventually(10s, [&] { return can_connect(path); }));
  raw_worker worker(path);
  worker.hello();
  hub.signal(SIGTERM);
  CHECK(hub.wait(10s) == 0);
  CHECK_FALSE(can_connect(path));
  CHECK(can_connect(elsewhere));
  ::close(fd);
}

TEST_CASE("case 28: a descriptor of the wrong kind is an error") {
  const temp_dir home;
  const auto path = home / "s";
  const auto fails = [&](int fd, const std::string& count, const std::string& words) {
    const auto result = run(activated(path, fd, "$$", count));
    CHECK(result.exit_code == 1);
    CHECK_THAT(result.err, Catch::Contains(words));
    if (fd >= 0) ::close(fd);
  };
  fails(bound_socket(SOCK_DGRAM, home / "dgram"), "1", "datagram");
  fails(bound_socket(SOCK_SEQPACKET, home / "seq"), "1", "sequential-packet");
  fails(bound_socket(SOCK_STREAM, home / "other"), "1", "make ListenStream= and `socket` the same");
  fails(socket(AF_INET, SOCK_STREAM, 0), "1", "a TCP or UDP socket");
  fails(open("/dev/null", O_RDONLY | O_CLOEXEC), "1", "no socket");
  int pair[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
  fails(pair[0], "1", "a connected socket");
  ::close(pair[1]);
  fails(-1, "1", "pgwaked takes a listening Unix stream socket");
  fails(-1, "2", "pgwaked takes a listening Unix stream socket");
  fails(-1, "many", "LISTEN_FDS is many");
}

namespace {

// Both sockets of a hub in a folder of its own, passed in an order of no meaning.
struct both_passed {
  temp_dir home;
  std::string path = home / "s";
  int door = bound_socket(SOCK_STREAM, home / ".s.PGSQL.5432");
  int fd = bound_socket(SOCK_STREAM, path);
  both_passed() = default;
  both_passed(const both_passed&) = delete;
  both_passed& operator=(const both_passed&) = delete;
  ~both_passed() {
    ::close(door);
    ::close(fd);
  }
  process_options command(std::vector<std::string> more) const {
    auto options = activated(path, door, "$$", "2");
    options.descriptors.push_back({fd, 4});
    for (std::size_t i = 0; i < options.argv.size(); ++i)
      if (options.argv[i] == "host=/nonexistent") options.argv[i] = cluster::shared().conninfo();
    options.argv.insert(options.argv.end(), more.begin(), more.end());
    return options;
  }
  std::string conninfo() const {
    return "host=" + home.path() + " port=5432 dbname=postgres user=app connect_timeout=20";
  }
};

}  // namespace

TEST_CASE("P18: both sockets may be passed, and drivers that come while no hub runs wait for the next one") {
  const both_passed place;
  std::future<std::string> waits;
  for (int run = 0; run < 2; ++run) {
    process hub(place.command({"--front-door", "--drain-grace", "1s"}));
    raw_worker worker(place.path);
    worker.hello();
    if (run == 1) {
      CHECK(waits.get().empty());
    } else {
      REQUIRE(hub.wait_for_err("upstream connected", 15s));
      connection driver(place.conninfo());
      driver.exec("LISTEN c");
      cluster::shared().notify("c", "hello");
      CHECK(driver.next_notification(10s).value_or(notification{}).payload == "hello");
      CHECK(hub.err().find("not used") == std::string::npos);
    }
    worker.close();
    hub.signal(SIGTERM);
    CHECK(hub.wait(15s) == 0);
    if (run == 0)
      waits = std::async(std::launch::async, [&place] {
        try {
          connection(place.conninfo()).exec("LISTEN c");
          return std::string();
        } catch (const std::exception& e) {
          return std::string(e.what());
        }
      });
  }
}

TEST_CASE("P18: a door that was passed and is not wanted sends drivers on, and the log says so") {
  const both_passed place;
  const auto refused = [&](std::vector<std::string> settings, const std::string& said) {
    process hub(place.command(std::move(settings)));
    REQUIRE(hub.wait_for_err("upstream connected", 15s));
    CHECK_THAT(hub.err(), Catch::Contains("event=\"front door shut\"") && Catch::Contains(said));
    raw_worker worker(place.path);
    worker.hello();
    // The next host of the list, the server itself, is tried (P4).
    connection driver("host=" + place.home.path() + "," + cluster::shared().directory() + " port=5432," +
                      std::to_string(cluster::shared().port()) + " dbname=postgres user=postgres");
    CHECK(driver.value("SELECT count(*) FROM pg_catalog.pg_class WHERE false") == "0");
    hub.signal(SIGTERM);
    CHECK(hub.wait(15s) == 0);
  };
  refused({}, "front_door is false");
  refused({"--front-door", "--front-door-port", "5433"}, "the front door is at");
}

TEST_CASE("K1: that socket_mode is not used is said of each socket that was passed, and of no other") {
  const auto paths_said = [](const process_options& options) {
    process hub(options);
    REQUIRE(hub.wait_for_err("front door open", 15s));
    REQUIRE(hub.wait_for_err("event=started", 15s));
    hub.signal(SIGTERM);
    hub.wait(15s);
    std::string said;
    std::istringstream lines(hub.err());
    for (std::string line; std::getline(lines, line);)
      if (line.find("socket_mode and socket_group not used") != line.npos)
        said += line.find(".s.PGSQL.5432") != line.npos ? "door " : "hub ";
    return said;
  };
  const both_passed place;
  CHECK(paths_said(place.command({"--front-door", "--socket-mode", "0600"})) == "hub door ");
  CHECK(paths_said(place.command({"--front-door"})).empty());
  const temp_dir home;
  const auto path = home / "s";
  const int fd = bound_socket(SOCK_STREAM, path);
  auto one = activated(path, fd);
  one.argv.insert(one.argv.end(), {"--front-door", "--socket-mode", "0600"});
  CHECK(paths_said(one) == "hub ");
  ::close(fd);
}

TEST_CASE("systemd: READY, watchdog, reload and stop are told to NOTIFY_SOCKET") {
  const notify_listener manager;
  const temp_dir home;
  auto options = pgwaked_command({"run", "--database", "host=/nonexistent", "--socket", home / "s"});
  options.env.emplace_back("NOTIFY_SOCKET", manager.home / "notify");
  options.env.emplace_back("WATCHDOG_USEC", "300000");
  process hub(options);
  CHECK(manager.next() == "READY=1");
  CHECK(can_connect(home / "s"));  // at that very moment
  CHECK(manager.next().starts_with("STATUS=not healthy (connecting), 0 workers, 0 channels"));
  CHECK(time_of([&] {
          for (int beats = 0; beats < 6;)
            if (manager.next() == "WATCHDOG=1") ++beats;
        }) < at_load(1800ms));  // one at least in each period
  hub.signal(SIGHUP);
  CHECK(manager.next_but("WATCHDOG").starts_with("RELOADING=1\nMONOTONIC_USEC="));
  CHECK(manager.next_but("WATCHDOG") == "READY=1");
  hub.signal(SIGTERM);
  CHECK(manager.next_but("WATCHDOG") == "STOPPING=1\nEXTEND_TIMEOUT_USEC=15000000");
  CHECK(hub.wait(10s) == 0);
}

TEST_CASE("systemd: a watchdog meant for another process is not fed") {
  const notify_listener manager;
  const temp_dir home;
  auto options = pgwaked_command({"run", "--database", "host=/nonexistent", "--socket", home / "s"});
  options.env.emplace_back("NOTIFY_SOCKET", manager.home / "notify");
  options.env.emplace_back("WATCHDOG_USEC", "100000");
  options.env.emplace_back("WATCHDOG_PID", "1");
  process hub(options);
  CHECK(manager.next() == "READY=1");
  hub.signal(SIGTERM);
  CHECK(manager.next_but("READY").starts_with("STOPPING=1"));
  CHECK(hub.wait(10s) == 0);
}

TEST_CASE("C12: in containers users are numbers: the hub's is trusted by number, a worker's group admitted") {
  if (geteuid() != 0) SKIP_CASE(needs_root);
  const temp_dir home;
  const auto folder = home / "shared";
  run_ok({{"install", "-d", "-m", "2750", "-o", "10001", "-g", "10000", folder}});
  const auto as = [](const std::string& uid, const std::string& gid, process_options options) {
    options.argv.insert(options.argv.begin(), {"setpriv", "--reuid", uid, "--regid", gid, "--clear-groups",
                                               "--no-new-privs", "--bounding-set=-all"});
    return options;
  };
  const auto socket = folder + "/pgwake.sock";
  const auto database = cluster::shared().conninfo();
  process hub(
      as("10001", "10000",
         pgwaked_command({"run", "--database", database, "--socket", socket, "--allow", "gid:10000"})));
  REQUIRE(hub.wait_for_err("upstream connected", 15s));
  auto worker = pgwaked_command({"listen", "--json", "--socket", socket, "--policy", "none", "c"});
  worker.env.emplace_back("PGWAKE_HUB_USER", "10001");
  process trusting(as("10002", "10000", worker));
  CHECK(trusting.wait_for_out(R"({"event":"state","source":"hub"})", 10s));
  worker.env.back().second = "10009";
  process wary(as("10002", "10000", worker));
  CHECK_FALSE(wary.wait_for_out(R"("source":"hub")", 1s));
  const auto stranger = run(as("10003", "10003", pgwaked_command({"status", "--socket", socket})));
  CHECK(stranger.exit_code != 0);
  hub.signal(SIGTERM);
  CHECK(hub.wait(15s) == 0);
}
