#include "client/src/core/return_plan.hpp"

#include <algorithm>
#include <cstdint>

namespace pgwake::client {

void return_plan::plan(double random, steady_time now) {
  const auto doubled = settings_.delay.count() << std::min(std::max(short_stays_, 1U) - 1, 16U);
  const auto most = static_cast<double>(std::min<std::int64_t>(doubled, settings_.most.count()));
  at_ = now + millis{static_cast<std::int64_t>(most * (0.1 + 0.9 * random))};
}

void return_plan::failed(double random, steady_time now) {
  ++short_stays_;
  plan(random, now);
}

void return_plan::left(steady_time now) {
  short_stays_ = now - since_ < settings_.long_stay ? short_stays_ + 1 : 0;
}

}  // namespace pgwake::client
