#include "client/src/core/return_plan.hpp"

#include <algorithm>

#include "common/backoff.hpp"

namespace pgwake::client {

void return_plan::plan(double random, steady_time now) {
  const auto doubled = settings_.delay.count() << std::min(std::max(short_stays_, 1U) - 1, 16U);
  at_ = now + part_of(std::min(millis{doubled}, settings_.most), 0.1 + 0.9 * random);
}

void return_plan::failed(double random, steady_time now) {
  ++short_stays_;
  plan(random, now);
}

void return_plan::left(steady_time now) {
  short_stays_ = now - since_ < settings_.long_stay ? short_stays_ + 1 : 0;
}

}  // namespace pgwake::client
