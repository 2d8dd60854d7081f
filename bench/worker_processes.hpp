#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/stats.hpp"

namespace pgwake::bench {

// Workers as they are in life: one process each, blocked until something comes. They count together, in
// shared memory, and the one that completes the goal wakes this process.
class worker_processes {
 public:
  // frames: a program that speaks the protocol itself, with RapidJSON: each frame's channel and payload as
  // strings. unread_frames: one that only counts frames.
  enum class kind { frames, unread_frames, library, direct };

  // `target`: the hub's socket, or a connection string for `direct`. Returns when all are subscribed.
  worker_processes(kind what, std::size_t count, std::string target, std::string channel);
  ~worker_processes();
  worker_processes(const worker_processes&) = delete;
  worker_processes& operator=(const worker_processes&) = delete;

  // From now on `messages` to each of them are expected.
  void expect(std::size_t messages);
  // Until they have come. Throws after 30 s.
  void await();
  std::size_t size() const { return pids_.size(); }
  // Deliveries per second between the first and the last since expect().
  double deliveries_per_second() const;

 private:
  // Times in nanoseconds of the monotonic clock.
  struct shared {
    std::atomic<std::uint64_t> ready;
    std::atomic<std::uint64_t> failed;
    std::atomic<std::uint64_t> got;
    std::atomic<std::uint64_t> goal;
    std::atomic<std::int64_t> first;
    std::atomic<std::int64_t> last;
  };

  void work(kind what) const;
  void work_frames() const;
  void work_unread_frames() const;
  void work_library() const;
  void work_direct() const;
  void count(std::size_t messages) const;

  std::string target_;
  std::string channel_;
  shared* shared_;
  int done_;  // eventfd
  std::uint64_t before_ = 0;
  std::vector<pid_t> pids_;
};

}  // namespace pgwake::bench
