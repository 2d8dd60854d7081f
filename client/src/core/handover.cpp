#include "client/src/core/handover.hpp"

#include <utility>

namespace pgwake::client {

void handover::begin(side to, steady_time until) {
  end();
  phase_ = phase::joining;
  to_ = to;
  until_ = until;
}

void handover::fence(std::uint64_t id, std::string payload) {
  phase_ = phase::fencing;
  id_ = id;
  payload_ = std::move(payload);
}

bool handover::pass(side s) {
  (s == to_ ? new_passed_ : old_passed_) = true;
  return old_passed_ && new_passed_;
}

void handover::end() { *this = handover{}; }

handover::route handover::where(side s) const {
  if (!fencing()) return s == to_ ? route::drop : route::deliver;
  if (s == to_) return new_passed_ ? route::hold : route::drop;
  return old_passed_ ? route::hold : route::deliver;
}

void handover::hold(side s, event e) {
  // As it is resident: a flood of tiny events must hit the bound as well.
  bytes_ += e.heap() + sizeof(event);
  (s == to_ ? held_new_ : held_old_).push_back(std::move(e));
}

std::deque<event> handover::take(side s) { return std::exchange(s == to_ ? held_new_ : held_old_, {}); }

}  // namespace pgwake::client
