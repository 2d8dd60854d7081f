#include <sched.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "bench/receivers.hpp"
#include "bench/scenario.hpp"
#include "common/message_codec.hpp"
#include "support/files.hpp"
#include "support/frame_socket.hpp"

namespace pgwake::bench {
namespace {

std::string sub_frame(const std::string& channel) {
  std::string out;
  encode(out, from_worker{sub{wire_name{channel, ""}}});
  return out;
}

std::vector<std::string> names(const std::string& prefix, std::size_t count) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(prefix + std::to_string(i));
  return out;
}

// The least that can answer over a Unix socket while it serves more than one: epoll, read, write. In a
// process of its own, like the hub.
class echo_server {
 public:
  echo_server() {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) test::throw_errno("socketpair");
    fd_ = ends[0];
    pid_ = fork();
    if (pid_ < 0) test::throw_errno("fork");
    if (pid_ == 0) serve(ends[1]);
    close(ends[1]);
  }
  ~echo_server() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(fd_);
  }
  echo_server(const echo_server&) = delete;
  echo_server& operator=(const echo_server&) = delete;
  int fd() const { return fd_; }
  pid_t pid() const { return pid_; }

 private:
  [[noreturn]] static void serve(int fd) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int poll = epoll_create1(EPOLL_CLOEXEC);
    epoll_event event{};
    event.events = EPOLLIN;
    epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event);
    std::array<char, 4096> buffer{};
    while (epoll_wait(poll, &event, 1, -1) >= 0) {
      const auto n = recv(fd, buffer.data(), buffer.size(), 0);
      if (n <= 0 || send(fd, buffer.data(), static_cast<std::size_t>(n), MSG_NOSIGNAL) != n) break;
    }
    _exit(0);
  }

  int fd_ = -1;
  pid_t pid_ = -1;
};

// One frame out and one back, each in turn: p50 and p99 in microseconds. Heartbeats on the way are passed
// over.
std::vector<double> ask(int fd, const std::vector<std::string>& questions, std::string_view answer) {
  std::array<char, 4096> buffer{};
  std::vector<double> samples;
  for (const auto& q : questions) {
    const auto begin = steady::now();
    if (send(fd, q.data(), q.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(q.size()))
      test::throw_errno("send");
    while (true) {
      const auto n = recv(fd, buffer.data(), buffer.size(), 0);
      if (n <= 0) throw std::runtime_error("no answer");
      const std::string_view got(buffer.data(), static_cast<std::size_t>(n));
      if (got.find(answer) != std::string_view::npos) break;
    }
    samples.push_back(since(begin) * 1e6);
  }
  return {percentile(samples, 0.5), percentile(samples, 0.99)};
}

std::vector<std::string> sub_frames(const std::vector<std::string>& channels) {
  std::vector<std::string> out;
  for (const auto& name : channels) out.push_back(sub_frame(name));
  return out;
}

// Who asks and who answers, each on one processor for as long as this lives. Left to itself the kernel places
// the one answerer beside the asker and the other elsewhere, by chance and for good, which is a factor of
// four.
class placed {
 public:
  placed(int asker, int answerer, std::initializer_list<pid_t> answerers) : pids_{answerers} {
    sched_getaffinity(0, sizeof before_, &before_);
    pin(0, asker);
    for (const auto pid : pids_) pin(pid, answerer);
  }
  ~placed() {
    sched_setaffinity(0, sizeof before_, &before_);
    for (const auto pid : pids_) sched_setaffinity(pid, sizeof before_, &before_);
  }
  placed(const placed&) = delete;
  placed& operator=(const placed&) = delete;

 private:
  static void pin(pid_t pid, int processor) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(processor), &one);
    if (sched_setaffinity(pid, sizeof one, &one) != 0) test::throw_errno("sched_setaffinity");
  }

  std::vector<pid_t> pids_;
  cpu_set_t before_{};
};

void measure_active(context& c, test::hub_daemon& hub, bool apart) {
  const auto variant =
      std::string("ack of an active channel, on ") + (apart ? "two processors" : "one processor");
  if (!c.wants(variant) || (apart && sysconf(_SC_NPROCESSORS_ONLN) < 2)) return;
  const auto socket = hub.socket();
  const auto channels = names("active", 1000);
  const frame_workers holder(socket, 1, channels);
  const auto questions = sub_frames(channels);
  const echo_server echo;
  const placed where(0, apart ? 1 : 0, {hub.child().pid(), echo.pid()});
  const std::vector<contestant> all = {
      {"pgwake",
       [&] {
         const frame_workers asker(socket, 1, {});  // fresh: each channel is new to it
         return ask(asker.descriptors().front(), questions, R"("t":"ack")");
       }},
      {"echo", [&] { return ask(echo.fd(), questions, R"("t":"sub")"); }},
  };
  const auto values = interleave(c, all);
  auto p50 = compared("subscribe", variant, "p50", "us", all, values, 0);
  p50.wanted = at_most(1.3);
  c.out.add(std::move(p50));
  c.out.add(compared("subscribe", variant, "p99", "us", all, values, 1));
}

void measure_new(context& c, const std::string& socket) {
  PGconn* session = connect_postgres(c.servers.direct_database());
  std::size_t round = 0;
  const std::vector<contestant> all = {
      {"pgwake",
       [&] {
         const frame_workers asker(socket, 1, {});
         const auto questions = sub_frames(names("new" + std::to_string(++round) + ".", 200));
         return ask(asker.descriptors().front(), questions, R"("t":"ack")");
       }},
      {"LISTEN",
       [&] {
         std::vector<double> samples;
         for (const auto& name : names("new" + std::to_string(round) + ".", 200)) {
           const auto begin = steady::now();
           execute(session, "LISTEN \"" + name + "\"");
           samples.push_back(since(begin) * 1e6);
         }
         return std::vector<double>{percentile(samples, 0.5), percentile(samples, 0.99)};
       }},
  };
  const auto values = interleave(c, all);
  c.out.add(compared("subscribe", "ack of a new channel", "p50", "us", all, values, 0));
  c.out.add(compared("subscribe", "ack of a new channel", "p99", "us", all, values, 1));
  PQfinish(session);
}

// 10,000 channels that nobody listens to yet, from `workers` workers, each repetition on a fresh hub.
void measure_many(context& c, std::size_t workers) {
  constexpr std::size_t total = 10'000;
  const std::vector<contestant> all = {
      {"pgwake",
       [&] {
         const auto hub = c.servers.make_hub();
         std::vector<std::string> scripts(workers);
         for (std::size_t i = 0; i < total; ++i)
           scripts[i % workers] += sub_frame("many" + std::to_string(i));
         const auto took = subscribe_all(hub->socket(), scripts, total / workers);
         return std::vector<double>{took * 1e3};
       }},
      {"one batched LISTEN",
       [&] {
         PGconn* session = connect_postgres(c.servers.direct_database());
         std::string sql;
         for (std::size_t i = 0; i < total; ++i) sql += "LISTEN \"many" + std::to_string(i) + "\";";
         const auto begin = steady::now();
         execute(session, sql);
         const auto took = since(begin);
         PQfinish(session);
         return std::vector<double>{took * 1e3};
       }},
  };
  const auto values = interleave(c, all);
  auto out =
      compared("subscribe",
               "10,000 new channels from " + std::to_string(workers) + " worker" + (workers == 1 ? "" : "s"),
               "wall time", "ms", all, values, 0);
  if (workers == 1) out.wanted = at_most(1.2);
  c.out.add(std::move(out));
}

}  // namespace

void run_subscribe(context& c) {
  const auto hub = c.servers.make_hub();
  for (const bool apart : {false, true}) measure_active(c, *hub, apart);
  if (!c.quick) measure_new(c, hub->socket());
  measure_many(c, 1);
  if (!c.quick) measure_many(c, 100);
}

}  // namespace pgwake::bench
