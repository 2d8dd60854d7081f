#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace pgwake::simulation {

// splitmix64: one word of state, the same on every platform, so that a seed means the same run everywhere.
class random_source {
 public:
  explicit random_source(std::uint64_t seed) : state_(seed) {}

  std::uint64_t word() {
    state_ += 0x9e3779b97f4a7c15ULL;
    auto z = state_;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31U);
  }
  // Uniform in [0, n). n > 0.
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(word() % n); }
  // Uniform in [low, high].
  std::size_t between(std::size_t low, std::size_t high) { return low + below(high - low + 1); }
  bool chance(unsigned percent) { return below(100) < percent; }
  // An index, each as likely as its weight among `total`, their sum. total > 0.
  template <std::size_t Size>
  std::size_t weighted(const unsigned (&weights)[Size], unsigned total) {
    auto at = below(total);
    std::size_t k = 0;
    while (at >= weights[k]) at -= weights[k++];
    return k;
  }
  template <typename T>
  const T& pick(const std::vector<T>& from) {
    return from[below(from.size())];
  }
  template <typename T>
  T pick(std::initializer_list<T> from) {
    return from.begin()[below(from.size())];
  }

 private:
  std::uint64_t state_;
};

}  // namespace pgwake::simulation
