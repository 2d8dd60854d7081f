#pragma once

#include <chrono>

namespace pgwake {

// Monotonic time, always passed in: a core never reads a clock.
using steady_time = std::chrono::steady_clock::time_point;
using millis = std::chrono::milliseconds;

}  // namespace pgwake
