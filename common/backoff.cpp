#include "common/backoff.hpp"

#include <algorithm>

namespace pgwake {

millis backoff_delay(const backoff_limits& limits, unsigned attempt, double random) {
  if (attempt == 0) return millis{0};
  const auto shift = std::min(attempt - 1, 20U);
  const millis full{std::min<std::int64_t>(limits.base.count() << shift, limits.cap.count())};
  return full - part_of(full, random / 4);
}

millis part_of(millis whole, double part) {
  return millis{static_cast<std::int64_t>(part * static_cast<double>(whole.count()))};
}

double jitter::next() {
  // splitmix64 (Steele, Lea, Flood 2014): the whole state is one word.
  state_ += 0x9e3779b97f4a7c15ULL;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
  z ^= z >> 31U;
  return static_cast<double>(z >> 11U) * 0x1.0p-53;
}

}  // namespace pgwake
