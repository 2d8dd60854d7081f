#include <algorithm>
#include <utility>

#include "client/src/core/failover.hpp"

// Exact hand-overs (C6, C7), and what becomes of one that breaks.
namespace pgwake::client {
namespace {

// After a hand-over away from a draining hub broke; its grace is short.
constexpr millis again_soon{300};
// A hub that stops waits for its workers: whoever has left does not come back at once.
constexpr millis after_drain{1'000};

bool differ(const std::optional<std::string>& hub, const std::string& own) {
  return hub && !hub->empty() && !own.empty() && *hub != own;
}

}  // namespace

void failover::consider_handover(steady_time now, actions& out) {
  if (handover_.active() || cut_.active() || !own_.live()) return;
  if (serving_ == side::hub && hub_.healthy() && leaving() && now >= drain_at_)
    return begin_handover(side::own, now, out);
  if (serving_ != side::own || settings_.policy == policy::direct) return;
  if (!hub_.healthy() || hub_.draining()) {
    return return_.cancel();
  }
  if (!return_.planned()) return_.plan(jitter_.next(), now);
  if (!return_.due(now)) return;
  // Of another database: it stays on its own.
  if (differ(hub_.welcome().db, own_.database()) || differ(hub_.welcome().system_id, own_.system_id()))
    return return_.put_off(now);
  begin_handover(side::hub, now, out);
}

void failover::begin_handover(side to, steady_time now, actions& out) {
  handover_.begin(to, now + settings_.handover_deadline);
  for (auto& [channel, s] : set_.all()) {
    if (!s.wanted) continue;
    set_.set_joining(s, !s.active(to));
    if (to == side::hub && !s.at_hub) sub(channel, s, now, out);
  }
  fence_if_joined(now, out);
}

void failover::joined(subscription& s, steady_time now, actions& out) {
  if (!s.joining) return;
  set_.set_joining(s, false);
  fence_if_joined(now, out);
}

void failover::fence_if_joined(steady_time now, actions& out) {
  if (handover_.now_in() != handover::phase::joining || set_.joining() > 0) return;
  const auto number = settings_.secret();
  handover_.fence(number, hub_.welcome().fence + ":" + std::to_string(number));
  out.emplace_back(say_own{handover_.payload()});
  static_cast<void>(now);
}

void failover::passed(side s, steady_time now, actions& out) {
  if (handover_.pass(s)) complete_handover(now, out);
}

// The old side lives and goes on: nothing was lost.
void failover::abort_handover(steady_time now, actions& out) {
  if (!handover_.active()) return;
  const auto to = handover_.to();
  for (auto& e : handover_.take(handover_.from())) hand_out(std::move(e), out);
  handover_.end();
  ++counts_.aborted;
  set_.end_joining();
  if (to == side::hub) {
    if (hub_.up())
      for (auto& [channel, s] : set_.all())
        if (s.at_hub) unsub(channel, s, out);
    return_.failed(jitter_.next(), now);
  } else {
    drain_at_ = now + again_soon;
  }
  release_deferred(now, out);
}

void failover::break_handover(steady_time now, actions& out) {
  if (handover_.old_lost())
    cancel_handover(now, out);
  else
    abort_handover(now, out);
}

// The old side is gone, and the new one has not reached the fence: what is held is worth nothing. The new
// side takes over with a gap.
void failover::cancel_handover(steady_time now, actions& out) {
  handover_.end();
  ++counts_.aborted;
  set_.end_joining();
  leave(serving_ == side::hub ? gap_cause::hub_lost : gap_cause::reconnect, now);
  choose_side(now, out);
  release_deferred(now, out);
}

void failover::complete_handover(steady_time now, actions& out) {
  const auto to = handover_.to();
  auto held = handover_.take(to);
  handover_.end();
  ++counts_.handovers;
  serving_ = to;
  return_.cancel();
  for (auto& [channel, s] : set_.all()) {
    set_.set_served(s, s.acked && s.active(to) && s.owed == gap_cause::none);
    settle(channel, s, out);
  }
  for (auto& e : held) hand_out(std::move(e), out);
  cut_.passed(to);
  if (to == side::hub) {
    return_.arrived(now);
    stop_own(out);
  } else {
    const std::string why =
        over_limit_ ? "the hub refused a channel: " + *over_limit_ : "the hub is stopping";
    if (hub_.open() || trying_hub()) drop_hub(why, false, now, out);
    hub_.hold_off(now + after_drain);
  }
  release_deferred(now, out);
}

// A side is gone in the midst of a hand-over.
void failover::side_lost(side s, steady_time now, actions& out) {
  if (!handover_.active()) return;
  if (s == handover_.to()) {
    if (handover_.old_lost()) return cancel_handover(now, out);
    return abort_handover(now, out);
  }
  if (handover_.old_lost()) return;
  if (!handover_.fencing()) return cancel_handover(now, out);
  if (handover_.passed(s)) {
    // All before the fence was delivered; the rest comes from the new side. What is held of the old
    // one comes again.
    handover_.take(s);
    handover_.lose_old();
    return;
  }
  if (!handover_.passed(handover_.to())) return cancel_handover(now, out);
  // Between what the old side delivered and the fence something may be missing; what is held comes after it.
  const auto to = handover_.to();
  auto held = handover_.take(to);
  handover_.end();
  ++counts_.aborted;
  leave(s == side::hub ? gap_cause::hub_lost : gap_cause::reconnect, now);
  set_.end_joining();
  cut_.passed(to);  // the fence was the cut
  serve(to, now, out);
  for (auto& e : held) hand_out(std::move(e), out);
  release_deferred(now, out);
}

void failover::release_deferred(steady_time now, actions& out) {
  for (const auto& channel : set_.take_deferred()) reconcile(channel, now, out);
}

}  // namespace pgwake::client
