#include "attack/innocents.hpp"

#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <optional>
#include <stdexcept>

#include "support/frame_socket.hpp"
#include "support/raw_worker.hpp"

namespace pgwake::attack {
namespace {

constexpr std::string_view channel = "innocent";
constexpr auto sub_period = 100ms;

/// One worker that reads: counts what it gets, and subscribes to something new now and then.
class reader {
 public:
  reader(const std::string& socket, ledger& books, int number)
      : worker_(socket), books_(books), number_(number) {
    worker_.hello("innocent " + std::to_string(number));
    worker_.subscribe(channel, 10s);
  }

  int fd() const { return worker_.fd(); }
  bool gone() const { return gone_; }
  std::uint32_t last() const { return last_; }

  void take() {
    while (auto f = worker_.next(0ms)) take(*f);
    if (worker_.at_end() && !gone_) {
      gone_ = true;
      ++books_.fallen;
    }
  }

  void ask_for_something_new() {
    if (gone_ || asked_us_ != 0 || clock::now() < next_sub_) return;
    next_sub_ = clock::now() + sub_period;
    asked_for_ = "innocent." + std::to_string(number_) + "." + std::to_string(++asked_);
    asked_us_ = now_us();
    worker_.sub(asked_for_);
  }

 private:
  void take(const test::frame& f) {
    const auto t = f.t();
    auto& phase = books_.phases[static_cast<std::size_t>(books_.now.load())];
    if (t == "nack") ++books_.nacks;
    if ((t == "ack" || t == "nack") && f.q() == asked_for_) {
      const auto took = static_cast<std::uint32_t>(now_us() - asked_us_);
      asked_us_ = 0;
      ++phase.acks;
      if (took > phase.slowest_ack_us) phase.slowest_ack_us = took;
      worker_.unsub(asked_for_);
    }
    if (t != "wake" || f.q() != channel) return;
    if (f.gap()) {
      ++books_.gaps;
      after_gap_ = true;
    } else if (const auto p = f.p()) {
      number(*p, phase);
    }
  }

  // "NUMBER MICROSECONDS"
  void number(const std::string& payload, ledger::phase& phase) {
    std::uint32_t n = 0;
    std::uint64_t sent = 0;
    const auto* end = payload.data() + payload.size();
    const auto [after, error] = std::from_chars(payload.data(), end, n);
    if (error != std::errc() || after == end) return;
    std::from_chars(after + 1, end, sent);
    if (n <= last_) {
      ++books_.doubled;
    } else if (last_ != 0 && !after_gap_ && n != last_ + 1) {
      books_.lost += n - last_ - 1;
    }
    last_ = std::max(last_, n);
    after_gap_ = false;
    const auto at = phase.count.fetch_add(1);
    if (at < ledger::room) phase.wake_us[at] = static_cast<std::uint32_t>(now_us() - sent);
  }

  test::raw_worker worker_;
  ledger& books_;
  int number_;
  std::uint32_t last_ = 0;
  bool after_gap_ = false;
  bool gone_ = false;
  std::string asked_for_;
  int asked_ = 0;
  std::uint64_t asked_us_ = 0;
  clock::time_point next_sub_{};
};

void serve(const std::string& socket, ledger& books, std::size_t workers, std::size_t slow) {
  std::vector<std::unique_ptr<reader>> readers;
  for (std::size_t i = 0; i < workers; ++i)
    readers.push_back(std::make_unique<reader>(socket, books, static_cast<int>(i)));
  std::vector<std::unique_ptr<test::raw_worker>> idle;
  for (std::size_t i = 0; i < slow; ++i) {
    idle.push_back(std::make_unique<test::raw_worker>(socket));
    idle.back()->hello("slow");
    idle.back()->subscribe("slow", 10s);
  }
  books.ready = true;
  std::vector<pollfd> polls;
  while (!books.stop) {
    polls.clear();
    for (const auto& r : readers)
      if (!r->gone()) polls.push_back({r->fd(), POLLIN, 0});
    poll(polls.data(), polls.size(), 20);
    std::uint32_t last = ~0U;
    for (const auto& r : readers) {
      r->take();
      r->ask_for_something_new();
      last = std::min(last, r->last());
    }
    books.last = last;
  }
  for (const auto& w : idle)
    if (w->closed(0ms)) ++books.fallen;
}

}  // namespace

std::uint64_t now_us() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(clock::now().time_since_epoch()).count());
}

void become(const char* user) {
  if (getuid() != 0) return;
  const auto* account = getpwnam(user);
  if (account == nullptr) throw std::runtime_error(std::string("no such user: ") + user);
  if (setgroups(0, nullptr) != 0 || setgid(account->pw_gid) != 0 || setuid(account->pw_uid) != 0)
    throw std::runtime_error(std::string("cannot become ") + user);
}

pid_t start_innocents(const std::string& socket, ledger& books, std::size_t workers, std::size_t slow) {
  const auto parent = getpid();
  const pid_t pid = fork();
  if (pid != 0) return pid;
  int status = 0;
  try {
    become("daemon");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0);
    serve(socket, books, workers, slow);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "innocent workers: %s\n", e.what());
    ++books.fallen;
    status = 1;
  }
  _exit(status);
}

double quantile_ms(const ledger::phase& p, double share) {
  const auto count = std::min<std::size_t>(p.count, ledger::room);
  if (count == 0) return 0;
  std::vector<std::uint32_t> all(p.wake_us.begin(), p.wake_us.begin() + static_cast<std::ptrdiff_t>(count));
  const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(count - 1));
  std::nth_element(all.begin(), all.begin() + at, all.end());
  return all[static_cast<std::size_t>(at)] / 1000.0;
}

}  // namespace pgwake::attack
