#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

namespace pgwake::test {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// `limit`, as a quiet machine keeps it, for this machine as it is now: times the tasks that wait for each of
/// its processors.
inline milliseconds at_load(milliseconds limit) {
  double average = 0;
  double ignored = 0;
  int running = 0;
  std::ifstream("/proc/loadavg") >> average >> ignored >> ignored >> running;
  const auto processors = static_cast<double>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  const double waiting = std::max(average, static_cast<double>(running)) / processors;
  return milliseconds(
      static_cast<milliseconds::rep>(static_cast<double>(limit.count()) * std::clamp(waiting, 1.0, 20.0)));
}

/// Until when to wait for what must come. Less than 3 s is left as it is: so little is waited, too, for what
/// must not.
inline clock::time_point deadline_in(milliseconds patience) {
  return clock::now() + (patience < 3s ? patience : at_load(patience));
}

/// Polls `predicate` (every 1 to 5 ms) until it is true or `patience` has passed. True if it became true.
template <class Predicate>
bool eventually(milliseconds patience, Predicate&& predicate) {
  const auto deadline = deadline_in(patience);
  auto pause = milliseconds(1);
  while (!predicate()) {
    if (clock::now() >= deadline) return static_cast<bool>(predicate());
    std::this_thread::sleep_for(pause);
    pause = std::min(pause + milliseconds(1), milliseconds(5));
  }
  return true;
}

/// Time spent in `action`.
template <class Action>
milliseconds time_of(Action&& action) {
  const auto begin = clock::now();
  action();
  return std::chrono::duration_cast<milliseconds>(clock::now() - begin);
}

}  // namespace pgwake::test

#define REQUIRE_EVENTUALLY(condition, patience)                                                    \
  do {                                                                                             \
    INFO("eventually, within " #patience ": " #condition);                                         \
    REQUIRE(::pgwake::test::eventually((patience), [&] { return static_cast<bool>(condition); })); \
  } while (false)
