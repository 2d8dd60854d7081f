#pragma once

#include <cstdint>

#include "common/time.hpp"

namespace pgwake {

// Delay before a retry: attempt 0 is immediate, then `base` doubling up to `cap`, each shortened by at most a
// quarter. `random` is uniform in [0, 1): the caller owns the randomness.
struct backoff_limits {
  millis base{100};
  millis cap{3000};
};

millis backoff_delay(const backoff_limits& limits, unsigned attempt, double random);

// `part`, from 0 to 1, of `whole`, towards 0: to spread in time what many would do at one instant.
millis part_of(millis whole, double part);

// Small deterministic generator for jitter; one seed gives one sequence on every platform.
class jitter {
 public:
  explicit jitter(std::uint64_t seed) : state_(seed) {}
  double next();  // uniform in [0, 1)

 private:
  std::uint64_t state_;
};

}  // namespace pgwake
