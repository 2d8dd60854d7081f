#include "client/src/core/hub_life.hpp"

#include <algorithm>

#include "common/backoff.hpp"

namespace pgwake::client {
namespace {

// A link that lived so long was a success: the next attempt is immediate.
constexpr millis long_life{10'000};

}  // namespace

void hub_life::begin(steady_time now) {
  state_ = state::connecting;
  began_ = now;
}

void hub_life::welcomed(const pgwake::welcome& w, double random, steady_time now) {
  state_ = state::up;
  welcome_ = w;
  up_since_ = now;
  heard_ = now;
  failed_ = false;
  told_ = false;
  healthy_ = false;
  draining_ = false;
  unanswered_ = 0;
  ++connects_;
  // Three heartbeats, and a little that differs, so that the workers of a frozen hub do not all leave
  // at one instant.
  const millis heartbeat{std::clamp<std::uint32_t>(w.heartbeat_ms, 100, 600'000)};
  silence_ = 3 * heartbeat + part_of(heartbeat, random / 4);
}

void hub_life::told(const status& s, steady_time now) {
  if (s.healthy && !healthy_) healthy_since_ = now;
  told_ = true;
  lasting_.clear();
  healthy_ = s.healthy;
  full_ = s.full;
  if (s.slots > 0) slots_ = s.slots;
  draining_ = draining_ || s.draining;
  reason_ = s.healthy ? "" : s.reason.empty() ? "the hub is unhealthy" : "the hub is unhealthy: " + s.reason;
}

void hub_life::lost(std::string reason, bool slow, double random, steady_time now) {
  if (state_ == state::off) return;
  if (state_ != state::up)
    failures_ = std::max(failures_, 1U);  // only a link that was up is tried again at once
  else if (now - up_since_ >= long_life)
    failures_ = 0;
  state_ = state::waiting;
  told_ = healthy_ = draining_ = false;
  failed_ = true;
  reason_ = std::move(reason);
  lasting_ = slow ? reason_ : "";
  retry_at_ = now + (slow ? settings_.hub_retry_slow - part_of(settings_.hub_retry_slow, random / 4)
                          : backoff_delay(settings_.hub_retry, failures_, random));
  ++failures_;
}

void hub_life::retire() {
  state_ = state::off;
  told_ = healthy_ = draining_ = false;
  failed_ = true;
}

void hub_life::hold_off(steady_time until) { retry_at_ = std::max(retry_at_, until); }

void hub_life::asked(steady_time now) {
  if (unanswered_++ == 0) progress_ = now;
}

void hub_life::answered(steady_time now) {
  if (unanswered_ > 0) --unanswered_;
  progress_ = now;
}

const char* hub_life::overdue(steady_time now) const {
  switch (state_) {
    case state::off:
    case state::waiting:
      return nullptr;
    case state::connecting:
    case state::greeting:
      return now >= began_ + settings_.welcome_timeout ? "the hub did not answer in time" : nullptr;
    case state::up:
      break;
  }
  if (now >= heard_ + silence_) return "nothing heard from the hub for three heartbeats";
  if (healthy() && unanswered_ > 0 && now >= std::max(progress_, healthy_since_) + settings_.ack_timeout)
    return "the hub says it is healthy and does not answer subscriptions";
  return nullptr;
}

std::optional<steady_time> hub_life::deadline() const {
  switch (state_) {
    case state::off:
      return std::nullopt;
    case state::waiting:
      return retry_at_;
    case state::connecting:
    case state::greeting:
      return began_ + settings_.welcome_timeout;
    case state::up:
      break;
  }
  auto at = heard_ + silence_;
  if (healthy() && unanswered_ > 0)
    at = std::min(at, std::max(progress_, healthy_since_) + settings_.ack_timeout);
  return at;
}

}  // namespace pgwake::client
