#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <thread>
#include <utility>

namespace pgwake::test {

/// Work beside the test case. `work` is handed a flag that asks it to end, set by stop() and at destruction;
/// what it throws is thrown by stop() and join().
class background {
 public:
  using stop_flag = std::atomic<bool>;

  explicit background(std::function<void(const stop_flag& stop)> work)
      : thread_([this, what = std::move(work)] {
          try {
            what(stop_);
          } catch (...) {
            failure_ = std::current_exception();
          }
        }) {}
  background(const background&) = delete;
  background& operator=(const background&) = delete;
  ~background() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }

  /// Asks it to end, and waits for it.
  void stop() {
    stop_ = true;
    join();
  }
  void join() {
    if (thread_.joinable()) thread_.join();
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  stop_flag stop_ = false;
  std::exception_ptr failure_{};
  std::thread thread_;
};

}  // namespace pgwake::test
