#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace pgwaked {

// Durations counted in fixed buckets, for metrics. It is added to for every wake that is delivered, so adding
// is a table look-up and at most two comparisons. Pure.
class duration_histogram {
 public:
  using nanoseconds = std::chrono::nanoseconds;

  // Upper bounds, inclusive; a last bucket takes what is longer.
  static constexpr std::array<std::int64_t, 21> bounds_ns = {
      10'000,         25'000,         50'000,        100'000,       250'000,       500'000,
      1'000'000,      2'500'000,      5'000'000,     10'000'000,    25'000'000,    50'000'000,
      100'000'000,    250'000'000,    500'000'000,   1'000'000'000, 2'500'000'000, 5'000'000'000,
      10'000'000'000, 30'000'000'000, 60'000'000'000};

  // What is negative (a time from before the clock that the caller passes) counts as nothing waited.
  void add(nanoseconds d, std::uint64_t times = 1) {
    const auto ns = std::max<std::int64_t>(d.count(), 0);
    std::size_t i = first_[static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(ns)))];
    while (i < bounds_ns.size() && ns > bounds_ns[i]) ++i;
    counts_[i] += times;
    sum_ns_ += static_cast<double>(ns) * static_cast<double>(times);
  }

  // Per bucket, not cumulated; the last is what is over all bounds.
  const std::array<std::uint64_t, bounds_ns.size() + 1>& counts() const { return counts_; }
  double sum_seconds() const { return sum_ns_ / 1e9; }

 private:
  // By the number of bits of a duration: the first bound that can hold one of that many.
  static constexpr std::array<std::uint8_t, 65> first_ = [] {
    std::array<std::uint8_t, 65> table{};
    for (std::size_t bits = 0; bits < table.size(); ++bits) {
      std::size_t i = 0;
      while (i < bounds_ns.size() && bits > 0 && bounds_ns[i] < static_cast<double>(1ULL << (bits - 1))) ++i;
      table[bits] = static_cast<std::uint8_t>(i);
    }
    return table;
  }();

  std::array<std::uint64_t, bounds_ns.size() + 1> counts_{};
  double sum_ns_ = 0;
};

}  // namespace pgwaked
