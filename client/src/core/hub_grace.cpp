#include "client/src/core/hub_grace.hpp"

#include <algorithm>
#include <utility>

namespace pgwake::client {

void hub_grace::welcomed() { full_ = give_up_due_ = false; }

// Said again after another trouble, it is another time.
void hub_grace::judge_full(bool full, jitter& random, steady_time now) {
  if (full_ && !full) full_ = give_up_due_ = ill_ = false;
  if (!full || std::exchange(full_, true)) return;
  give_up_at_ = now + part_of(settings_.spread, random.next());
  give_up_due_ = true;
  have_again_at_ = give_up_at_ + settings_.patience;
}

void hub_grace::told(const hub_life& hub, jitter& random, steady_time now) {
  judge_full(hub.full(), random, now);
  if (hub.unhealthy() && !std::exchange(ill_, true))
    fall_at_ = now + settings_.unhealthy + part_of(settings_.unhealthy, random.next() / 4);
  if (hub.healthy()) ill_ = false;
  if (full_) fall_at_ = std::max(fall_at_, have_again_at_);
}

std::optional<steady_time> hub_grace::give_up_at() const {
  if (give_up_due_) return give_up_at_;
  return std::nullopt;
}

}  // namespace pgwake::client
