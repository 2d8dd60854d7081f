#pragma once

#include <chrono>
#include <vector>

namespace pgwake::bench {

using steady = std::chrono::steady_clock;

// Seconds since `begin`.
inline double since(steady::time_point begin) {
  return std::chrono::duration<double>(steady::now() - begin).count();
}

// All of these take at least one value.
double median(std::vector<double> values);
double percentile(std::vector<double> values, double p);  // p in 0..1, nearest rank
double lowest(const std::vector<double>& values);
double highest(const std::vector<double>& values);

}  // namespace pgwake::bench
