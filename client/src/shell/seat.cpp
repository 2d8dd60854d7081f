#include "client/src/shell/seat.hpp"

#include <algorithm>
#include <utility>

#include "client/src/shell/eventfd.hpp"

namespace pgwake::client {
namespace {

constexpr millis a_moment{1};  // between looks at a fork that is under way

}  // namespace

bool seat::become(holder who) {
  auto empty = holder::nobody;
  return holder_.compare_exchange_strong(empty, who, std::memory_order_acq_rel);
}

void seat::take_in_background() {
  std::unique_lock lock(guard_);
  auto seen = visits_;
  while (true) {
    if (now_in() == holder::application) {
      if (std::exchange(seen, visits_) != visits_) {
        changed_.wait_until(lock, std::chrono::steady_clock::now() + patience);
        continue;
      }
      asleep_ = true;
      changed_.wait(lock, [this] { return !asleep_; });
      continue;
    }
    const auto until = left_ + patience;
    if (!urgent_ && std::chrono::steady_clock::now() < until) {
      changed_.wait_until(lock, until);
      continue;
    }
    if (become(holder::background)) break;
    changed_.wait_until(lock, std::chrono::steady_clock::now() + a_moment);
  }
  urgent_ = false;
}

void seat::leave_in_background() {
  const std::lock_guard lock(guard_);
  left_ = std::chrono::steady_clock::now();
  holder_.store(holder::nobody, std::memory_order_release);
  changed_.notify_all();
}

bool seat::take(std::optional<steady_time> until) {
  std::unique_lock lock(guard_);
  thread_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  wanted_.store(true, std::memory_order_release);
  bool taken = become(holder::application);
  for (bool told = false; !taken; taken = become(holder::application)) {
    const auto now = std::chrono::steady_clock::now();
    const auto who = now_in();
    if (who == holder::a_fork || who == holder::at_rest) {
      urgent_ = true;  // the background thread's as soon as the fork is done
      break;
    }
    if (ended_.load(std::memory_order_relaxed) || (until && now >= *until)) break;
    if (who == holder::background && !std::exchange(told, true)) signal_eventfd(wake_fd_);
    changed_.wait_until(lock, until ? std::min(*until, now + a_moment) : now + a_moment);
  }
  wanted_.store(false, std::memory_order_release);
  if (!taken) return false;
  urgent_ = false;  // whatever was, it is this thread's to do, or to say again when it leaves
  ++visits_;
  return true;
}

void seat::leave(bool urgent) {
  const std::lock_guard lock(guard_);
  left_ = std::chrono::steady_clock::now();
  urgent_ = urgent_ || urgent;
  holder_.store(holder::nobody, std::memory_order_release);
  if (std::exchange(asleep_, false) || urgent) changed_.notify_all();
}

void seat::needed() {
  const std::lock_guard lock(guard_);
  if (now_in() != holder::nobody) return;
  urgent_ = true;
  changed_.notify_all();
}

void seat::let_go() {
  auto kept = holder::a_fork;
  holder_.compare_exchange_strong(kept, holder::nobody, std::memory_order_acq_rel);
}

}  // namespace pgwake::client
