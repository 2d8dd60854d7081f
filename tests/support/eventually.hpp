#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace pgwake::test {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// Polls `predicate` (every 1 to 5 ms) until it is true or `patience` has passed. True if it became true.
template <class Predicate>
bool eventually(milliseconds patience, Predicate&& predicate) {
  const auto deadline = clock::now() + patience;
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
