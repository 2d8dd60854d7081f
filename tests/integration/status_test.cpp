// `pgwaked status` for people, and its live view on a real terminal. What the table says of a healthy and of
// a degraded hub is in command_line_test.cpp.
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>
#include <catch2/catch.hpp>

#include "integration/rig.hpp"
#include "support/skip.hpp"

using namespace pgwake::test;

namespace {

run_result status(std::vector<std::string> arguments, const std::string& account = {}) {
  arguments.insert(arguments.begin(), "status");
  auto job = pgwaked_command(std::move(arguments));
  job.account = account;
  return run(std::move(job), 20s);
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// `pgwaked status --watch` on a pseudo-terminal.
class watched {
 public:
  explicit watched(const std::string& socket, unsigned short columns = 80, unsigned short rows = 24) {
    winsize size{rows, columns, 0, 0};
    int follower = -1;
    if (openpty(&leader_, &follower, nullptr, nullptr, &size) != 0) throw_errno("openpty");
    tcgetattr(follower, &before_);
    const auto program = pgwaked_path();
    pid_ = fork();
    if (pid_ == 0) {
      login_tty(follower);
      setenv("LC_ALL", "C.UTF-8", 1);
      setenv("TERM", "xterm", 1);
      execl(program.c_str(), program.c_str(), "status", "--watch", "--socket", socket.c_str(), nullptr);
      _exit(127);
    }
    follower_ = follower;  // kept open: the settings of the terminal outlive the program
  }
  ~watched() {
    if (pid_ > 0) kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
    close(leader_);
    close(follower_);
  }
  watched(const watched&) = delete;
  watched& operator=(const watched&) = delete;

  /// All that it has written until `text` came after position `from`.
  bool shows(const std::string& text, milliseconds patience = 5s) {
    return eventually(patience, [&] {
      take();
      return seen_.find(text, from_) != std::string::npos;
    });
  }
  void forget() { take(), from_ = seen_.size(); }
  void press(const std::string& keys) { CHECK(write(leader_, keys.data(), keys.size()) > 0); }
  void resize(unsigned short columns, unsigned short rows) {
    winsize size{rows, columns, 0, 0};
    ioctl(leader_, TIOCSWINSZ, &size);
  }
  void signal(int number) { kill(pid_, number); }
  std::optional<int> wait(milliseconds patience = 3s) {
    int how = 0;
    const bool ended = eventually(patience, [&] {
      take();
      return waitpid(pid_, &how, WNOHANG) == pid_;
    });
    if (!ended) return std::nullopt;
    pid_ = -1;
    take();
    return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
  }
  bool gave_the_terminal_back() const {
    termios now{};
    tcgetattr(follower_, &now);
    const auto left = seen_.rfind("\x1b[?1049l");
    return now.c_lflag == before_.c_lflag && now.c_iflag == before_.c_iflag && left != std::string::npos &&
           left > seen_.rfind("\x1b[?1049h") && seen_.rfind("\x1b[?25h") > seen_.rfind("\x1b[?25l");
  }
  const std::string& seen() const { return seen_; }

 private:
  void take() {
    pollfd p{leader_, POLLIN, 0};
    std::array<char, 65536> buffer{};
    while (poll(&p, 1, 0) > 0 && (p.revents & POLLIN) != 0) {
      const auto n = read(leader_, buffer.data(), buffer.size());
      if (n <= 0) return;
      seen_.append(buffer.data(), static_cast<std::size_t>(n));
    }
  }

  int leader_ = -1;
  int follower_ = -1;
  pid_t pid_ = -1;
  termios before_{};
  std::string seen_;
  std::size_t from_ = 0;
};

}  // namespace

TEST_CASE("a hub that stops is said to, by its lock, though its socket is gone") {
  rig r({.arguments = {"--drain-grace", "20s"}});
  auto worker = r.worker();
  worker.subscribe("c");
  r.hub().child().signal(SIGTERM);
  while (const auto got = worker.next(3s))
    if (got->flag("draining")) break;
  const auto pid = "PID " + std::to_string(r.hub().child().pid());
  for (const bool json : {false, true}) {
    std::vector<std::string> arguments = {"--socket", r.hub().socket()};
    if (json) arguments.emplace_back("--json");
    const auto result = status(arguments);
    CHECK(result.exit_code == 1);
    CHECK(result.out.empty());
    CHECK(has(result.err, pid));
    CHECK(has(result.err, "stopping"));
    CHECK_FALSE(has(result.err, "Start it"));
  }
  watched late(r.hub().socket());
  CHECK(late.shows("STOPPING"));
  late.press("q");
  CHECK(late.wait() == 1);
  const auto control = run(pgwaked_command({"control", "drain", "--socket", r.hub().socket()}), 20s);
  CHECK(control.exit_code == 1);
  CHECK(has(control.err, pid));
  if (geteuid() == 0) CHECK(status({"--socket", r.hub().socket()}, server_account()).exit_code == 1);
  worker.close();
  CHECK(r.hub().child().wait(5s) == 0);
  CHECK(status({"--socket", r.hub().socket()}).exit_code == 3);
}

TEST_CASE("status says what is wrong with the socket and what to do, and exits with 3") {
  const temp_dir directory;
  auto result = status({"--socket", directory / "none"});
  CHECK(result.exit_code == 3);
  CHECK(has(result.err, directory / "none"));
  CHECK(has(result.err, "--socket"));
  CHECK(result.out.empty());
  write_file(directory / "plain", "x");
  result = status({"--socket", directory / "plain"});
  CHECK(result.exit_code == 3);
  CHECK(has(result.err, "not a socket"));
  CHECK(status({"--socket", directory / std::string(108, 'x')}).exit_code >= 2);

  rig r;
  if (geteuid() == 0) {
    result = status({"--socket", r.hub().socket()}, server_account());
    CHECK(result.exit_code == 3);
    CHECK(has(result.err, "permission denied"));
    CHECK(has(result.err, "0660"));
  }
  r.hub().kill();
  result = status({"--socket", r.hub().socket()});
  CHECK(result.exit_code == 3);
  CHECK(has(result.err, "nobody listens"));
}

TEST_CASE("K4: status of a full hub works, of one that refuses exits with 1, of one that hangs with 4") {
  rig r({.arguments = {"--max-workers", "2"}});
  auto first = r.worker();
  auto second = r.worker();
  auto result = status({"--socket", r.hub().socket()});
  CHECK(result.exit_code == 0);
  std::vector<raw_worker> operators;
  for (int i = 0; i < 8; ++i) {
    operators.push_back(r.hub().connect());
    operators.back().send_json(R"({"t":"hello","v":1,"operator":true})");
    operators.back().expect("welcome");
  }
  result = status({"--socket", r.hub().socket()});
  CHECK(result.exit_code == 1);
  CHECK(has(result.err, "max_workers"));
  first.close();
  r.hub().child().signal(SIGSTOP);
  result = status({"--socket", r.hub().socket()});
  r.hub().child().signal(SIGCONT);
  CHECK(result.exit_code == 4);
  CHECK(has(result.err, "does not answer"));
}

TEST_CASE("status tells another program on the path, and a folder that is gone, from a hub that hangs") {
  const temp_dir directory;
  process stranger({.argv = {"/usr/bin/python3", "-c",
                             "import socket,sys,time\ns=socket.socket(socket.AF_UNIX)\ns.bind(sys.argv[1])\n"
                             "s.listen()\nprint('ready',flush=True)\ntime.sleep(60)",
                             directory / "s"}});
  REQUIRE(stranger.wait_for_out("ready", 10s));
  auto result = status({"--socket", directory / "s"});
  INFO(result.err);
  CHECK(result.exit_code == 3);
  CHECK(has(result.err, "process " + std::to_string(stranger.pid()) + " (python3) listens at"));
  result = status({"--socket", directory / "gone/s"});
  CHECK(result.exit_code == 3);
  CHECK(has(result.err, "its folder does not exist"));
}

TEST_CASE("what others chose is escaped in JSON, too") {
  rig r;
  auto worker = r.worker("evil \u202e \u009b31m 日本");
  worker.subscribe("c");
  const auto result = status({"--json", "--socket", r.hub().socket()});
  CHECK(result.exit_code == 0);
  for (const auto* bad : {"\u202e", "\u009b"}) CHECK_FALSE(has(result.out, bad));
  CHECK(has(result.out, "evil \\u202e \\u009b31m 日本"));
}

TEST_CASE("status: a hub for which the server has no connection to spare says so, and what to do") {
  cluster::shared().exec("CREATE ROLE crowded LOGIN CONNECTION LIMIT 0");
  const auto database = cluster::shared().new_database();
  const hub_daemon hub(
      {.database = cluster::shared().conninfo(database, "crowded"), .until = readiness::accepting});
  REQUIRE_EVENTUALLY(has(status({"--socket", hub.socket(), "--json"}).out, "\"full\":true"), 20s);
  const auto result = status({"--socket", hub.socket()});
  CHECK(result.exit_code == 1);
  CHECK(has(result.out, "no connection to spare"));
}

TEST_CASE("status of a draining hub exits with 1 and says so") {
  rig r({.arguments = {"--drain-grace", "10s"}});
  auto worker = r.worker();
  worker.subscribe("c");
  // Asked over a connection from before: a draining hub lets nobody in.
  r.hub().child().signal(SIGTERM);
  while (const auto got = worker.next(3s))
    if (got->flag("draining")) break;
  worker.send_json(R"({"t":"stats"})");
  const auto stats = worker.expect("stats");
  CHECK(stats.flag("draining"));
  CHECK_FALSE(stats.flag("healthy"));
  worker.unsub("c");
  CHECK(r.hub().child().wait(5s) == 0);
}

TEST_CASE("names with control characters do not reach the terminal through status") {
  rig r;
  auto worker = r.worker("evil \x1b[31m\xe2\x80\xae\x07");
  worker.subscribe("ch\x1b]0;x\x07\n");
  const auto result = status({"--socket", r.hub().socket()});
  CHECK(result.exit_code == 0);
  INFO(result.out);
  CHECK(has(result.out, "evil \\x1b[31m\\u202e\\x07"));
  CHECK(has(result.out, "ch\\x1b]0;x\\x07\\x0a"));
  for (const char c : result.out) CHECK((static_cast<unsigned char>(c) >= 0x20 || c == '\n'));
}

TEST_CASE("other users see numbers, and only their own workers' names") {
  if (geteuid() != 0) SKIP_CASE(needs_root);
  rig r({.arguments = {"--socket-mode", "0666"}});
  auto worker = r.worker("of root");
  worker.subscribe("secret-channel");
  const auto result = status({"--json", "--socket", r.hub().socket()}, server_account());
  CHECK(result.exit_code == 0);
  CHECK_FALSE(has(result.out, "of root"));
  CHECK_FALSE(has(result.out, "secret-channel"));
  CHECK(has(result.out, "\"channel_count\":1"));
}

TEST_CASE("status --watch shows the hub live, follows the window, and gives the terminal back") {
  rig r;
  auto worker = r.worker("puma 1");
  worker.subscribe("orders");
  watched w(r.hub().socket());
  REQUIRE(w.shows("HEALTHY"));
  CHECK(w.shows("puma 1"));
  CHECK(w.seen().rfind("\x1b[?1049h", 0) == 0);
  CHECK_FALSE(w.shows("█", 1ms));
  r.sql("SELECT pg_notify('orders', n::text) FROM generate_series(1, 300) n");
  CHECK(w.shows("█"));  // the rate's graph
  w.press("\t");
  CHECK(w.shows("orders"));
  CHECK(w.shows("CHANNEL"));
  w.forget();
  w.resize(132, 40);
  CHECK(w.shows(std::string(60, ' '), 3s));
  w.forget();
  REQUIRE(r.terminate());
  CHECK(w.shows("reconnects ", 4s));
  w.press("q");
  CHECK(w.wait() == 0);
  CHECK(w.gave_the_terminal_back());
}

TEST_CASE("status --watch sorts the workers, and evicts the one selected once that is confirmed") {
  rig r;
  auto first = r.worker("zebra");
  auto second = r.worker("aardvark");
  watched w(r.hub().socket(), 120);
  REQUIRE(w.shows("aardvark"));
  CHECK(w.shows("s sort: unsent"));
  w.press("e");
  CHECK(w.shows("select a worker first"));
  for (const char* order : {"oldest", "out/s", "channels", "name"}) {
    w.press("s");
    CHECK(w.shows("s sort: " + std::string(order), 10s));
  }
  // By name the view itself comes between the two.
  w.press("j");
  w.press("e");
  REQUIRE(w.shows("(aardvark, PID"));
  w.press("n");
  w.forget();
  CHECK(w.shows("s sort: name"));
  CHECK_FALSE(second.closed(200ms));
  w.press("e");
  REQUIRE(w.shows("(aardvark, PID"));
  w.press("y");
  CHECK(w.shows("is evicted"));
  CHECK(second.closed());
  CHECK_FALSE(first.closed(200ms));
  CHECK(r.hub().logs("do=evict"));
  w.press("q");
  CHECK(w.wait() == 0);
}

TEST_CASE("status --watch ends by Ctrl-C and by signals, with the exit code of what it saw last") {
  rig r;
  const std::string way = GENERATE("ctrl-c", "term", "hup");
  watched w(r.hub().socket());
  REQUIRE(w.shows("HEALTHY"));
  if (way == "ctrl-c") w.press("\x03");
  if (way == "term") w.signal(SIGTERM);
  if (way == "hup") w.signal(SIGHUP);
  CHECK(w.wait() == 0);
  CHECK(w.gave_the_terminal_back());
}

TEST_CASE("status --watch waits for a hub that is not there, and sees it come") {
  rig r;
  REQUIRE(r.hub().stop() == 0);
  watched w(r.hub().socket());
  REQUIRE(w.shows("NOT RUNNING"));
  r.hub().start();
  CHECK(w.shows("HEALTHY", 10s));
  r.hub().kill();
  w.forget();
  CHECK(w.shows("NOT RUNNING", 5s));
  w.press("q");
  CHECK(w.wait() == 3);
  CHECK(w.gave_the_terminal_back());
}

TEST_CASE("status --watch without a terminal is wrong usage") {
  rig r;
  const auto result = status({"--watch", "--socket", r.hub().socket()});
  CHECK(result.exit_code == 2);
  CHECK(has(result.err, "terminal"));
}
