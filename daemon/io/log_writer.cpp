#include "daemon/io/log_writer.hpp"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "common/os/signals_blocked.hpp"

namespace pgwaked {
namespace {

// Whole lines from the front, as many as one write may hold; at least one.
std::string_view next_piece(std::string_view text) {
  if (text.size() <= PIPE_BUF) return text;
  auto end = text.rfind('\n', PIPE_BUF - 1);
  if (end == std::string_view::npos) end = text.find('\n');
  return text.substr(0, end == std::string_view::npos ? text.size() : end + 1);
}

// False: the descriptor does not take it (closed, broken, disk full). `torn`: a line was left half written.
bool put(int fd, std::string_view piece, bool& torn) {
  while (!piece.empty()) {
    const auto n = ::write(fd, piece.data(), piece.size());
    if (n > 0) {
      piece.remove_prefix(static_cast<std::size_t>(n));
      torn = !piece.empty();
    } else if (n < 0 && errno == EAGAIN) {  // somebody else made it non-blocking
      pollfd p{fd, POLLOUT, 0};
      poll(&p, 1, 1'000);
    } else if (n == 0 || errno != EINTR) {
      return false;
    }
  }
  return true;
}

std::uint64_t lines_in(std::string_view text) {
  return static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

struct log_writer::shared {
  shared(int f, notice n) : fd(f), make_notice(std::move(n)) {}

  const int fd;
  const notice make_notice;
  mutable std::mutex guard;
  std::condition_variable more;
  std::condition_variable idle;
  std::string waiting;
  std::size_t under_way = 0;  // bytes that the thread is writing
  std::uint64_t dropped = 0;  // lines
  std::uint64_t told = 0;     // of them
  bool running = false;
  bool closing = false;

  bool fits(std::size_t bytes) const { return waiting.size() + under_way + bytes <= max_bytes; }

  // In the place where the lines are missing, and not before there is room for many more.
  void tell_dropped() {
    if (dropped == told || !fits(max_bytes / 2)) return;
    waiting += make_notice(dropped - told, dropped);
    told = dropped;
  }

  // Returns the lines that were lost.
  std::uint64_t write_out(std::string_view text, bool& torn) const {
    std::uint64_t lost = 0;
    while (!text.empty()) {
      const auto piece = next_piece(text);
      if ((torn && !put(fd, "\n", torn)) || !put(fd, piece, torn)) lost += lines_in(piece);
      text.remove_prefix(piece.size());
    }
    return lost;
  }
};

log_writer::log_writer(int fd, notice make_notice)
    : shared_(std::make_shared<shared>(fd, std::move(make_notice))) {}

log_writer::~log_writer() { close(std::chrono::milliseconds(0)); }

void log_writer::run(const std::shared_ptr<shared>& s) {
  pthread_setname_np(pthread_self(), "log");
  bool torn = false;
  std::unique_lock lock(s->guard);
  while (true) {
    s->more.wait(lock, [&] { return !s->waiting.empty() || s->closing; });
    if (s->waiting.empty()) break;
    const auto text = std::exchange(s->waiting, {});
    s->under_way = text.size();
    lock.unlock();
    const auto lost = s->write_out(text, torn);
    lock.lock();
    s->under_way = 0;
    s->dropped += lost;
    if (lost == 0) s->tell_dropped();
  }
  s->running = false;
  s->idle.notify_all();
}

// Without a thread (a limit of processes) lines wait, and the next one tries again.
void log_writer::start_thread() {
  const pgwake::signals_blocked guard;
  try {
    std::thread([s = shared_] { run(s); }).detach();
    shared_->running = true;
  } catch (const std::system_error&) {
  }
}

void log_writer::write(std::string_view line) {
  const std::lock_guard lock(shared_->guard);
  shared_->tell_dropped();
  if (shared_->dropped == shared_->told && shared_->fits(line.size()))
    shared_->waiting += line;
  else
    ++shared_->dropped;
  if (!shared_->running && !shared_->closing) start_thread();
  shared_->more.notify_one();
}

bool log_writer::close(std::chrono::milliseconds patience) {
  auto& s = *shared_;
  std::unique_lock lock(s.guard);
  s.closing = true;
  s.more.notify_one();
  if (s.idle.wait_for(lock, patience, [&] { return !s.running; })) {
    // No thread was to be had: what a descriptor takes at once is written all the same.
    pollfd p{s.fd, POLLOUT, 0};
    bool torn = false;
    const auto text = std::exchange(s.waiting, {});
    if (!text.empty() && poll(&p, 1, 0) > 0) s.write_out(next_piece(text), torn);
    return true;
  }
  return false;
}

std::uint64_t log_writer::dropped() const {
  const std::lock_guard lock(shared_->guard);
  return shared_->dropped;
}

}  // namespace pgwaked
