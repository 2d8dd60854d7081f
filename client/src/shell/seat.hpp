#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "common/time.hpp"

namespace pgwake::client {

// Who runs the event loop: the background thread, or a thread of the application while it waits for an event:
// then what comes is there without a change of threads, which would cost more than all else on the way.
//
// Invariants: one thread at a time has the seat, and only that one touches the loop and what it drives. An
// application that has left it and does not come back within `patience` (it computes, say) finds the
// background thread in it: the hub and the server are always read.
//
// While an application comes and goes, the background thread takes a look every `patience`; while one stays
// and waits, it sleeps.
class seat {
 public:
  static constexpr millis patience{20};

  // `wake_fd`: an eventfd that the loop watches; a byte in it ends whatever the loop waits for.
  explicit seat(int wake_fd) : wake_fd_(wake_fd) {}
  seat(const seat&) = delete;
  seat& operator=(const seat&) = delete;

  // The background thread, which has it at first.
  void take_in_background();  // returns when the seat is taken
  void leave_in_background();
  // Keeps it, and nobody need wait for it.
  void rest(bool resting) {
    holder_.store(resting ? holder::at_rest : holder::background, std::memory_order_release);
  }
  // An application waits for it.
  bool wanted() const { return wanted_.load(std::memory_order_acquire); }

  // The application: one thread of it at a time. False: not by `until`, or nobody has it for now (a
  // fork), or ended.
  bool take(std::optional<steady_time> until);
  // From now on take() gives up. Async-signal-safe.
  void end() { ended_.store(true, std::memory_order_relaxed); }
  // `urgent`: somebody waits for what only the loop does.
  void leave(bool urgent);
  // From any thread: somebody waits for what only the loop does, and it must not be left alone.
  void needed();

  // Around a fork, without locks. True: nobody has the seat, and nobody gets it before let_go().
  bool keep_empty() { return become(holder::a_fork); }
  void let_go();
  // The calling thread is the application's that has it. Async-signal-safe: a fork in a signal handler asks.
  bool mine() const {
    return now_in() == holder::application &&
           thread_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }

 private:
  enum class holder { nobody, background, at_rest, application, a_fork };
  bool become(holder who);
  holder now_in() const { return holder_.load(std::memory_order_acquire); }

  int wake_fd_;
  std::atomic<holder> holder_ = holder::background;
  std::atomic<bool> wanted_ = false;
  std::atomic<bool> ended_ = false;
  std::atomic<std::thread::id> thread_ = std::thread::id();  // of the application's that has it or takes it
  std::mutex guard_;
  std::condition_variable changed_;
  steady_time left_{};
  unsigned visits_ = 0;
  bool urgent_ = false;
  bool asleep_ = false;  // the background thread is, until somebody leaves
};

}  // namespace pgwake::client
