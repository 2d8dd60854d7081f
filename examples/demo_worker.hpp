// One worker of demo_workers, and what it shares with its master.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <string>
#include <string_view>

namespace demo {

inline constexpr int worker_count = 8;
inline constexpr std::array<const char*, 4> channels = {"demo.orders", "demo.stock", "demo.Prices",
                                                        "demo.chat"};
// The last notification: what was published before it has arrived when it does, for the order is kept.
inline constexpr std::string_view end_mark = "end";

// What one worker found, in memory that it shares with the master.
struct Report {
  std::atomic<int> pid = 0;
  std::atomic<bool> by_hub = false;
  std::atomic<int> ephemerals = 0;
  std::atomic<bool> in_order = true;
  std::atomic<int> gaps = 0;
  std::array<std::atomic<int>, channels.size()> wakes = {};  // durable ones; they may be merged
  std::array<std::atomic<int>, channels.size()> seen = {};   // the newest change that it has read
  std::array<char, 200> error = {};
};

// `stored` stands for the tables of an application: a durable wake says "something changed, read again", and
// what has changed is stored. (It is shared memory here so that the demo leaves nothing behind in your
// database.)
struct Shared {
  std::array<std::atomic<int>, channels.size()> stored = {};
  std::array<Report, worker_count> reports = {};
  std::atomic<bool> talk = false;  // print every event from now on
};

struct WorkerSettings {
  std::string policy = "listener";
  std::string socket;
  std::string application_name = "pgwake-demo";
};

struct WorkerDescriptors {
  int ready;  // one byte once subscribed
  int done;   // one byte once everything has come
  int stop;   // end of file: leave
};

// A worker's life, called in the forked child. Answers its exit code.
int run_worker(const WorkerSettings& settings, int number, Shared& shared, WorkerDescriptors descriptors);

}  // namespace demo
