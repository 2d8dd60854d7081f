#include <algorithm>
#include <charconv>
#include <utility>

#include "client/src/core/failover.hpp"
#include "common/channel.hpp"

// What the two sides say.
namespace pgwake::client {
namespace {

event event_of(wake& w) {
  event e;
  e.source = side::hub;
  e.gap = w.gap;
  e.by = w.by;
  e.channel = std::move(w.q);
  e.payload = std::move(w.payload);
  return e;
}

}  // namespace

void failover::hand_out(event e, actions& out) {
  // Nothing before the ack, and nothing newer than a gap before that gap.
  const auto* s = set_.find(e.channel);
  if (s == nullptr || !s->served) return;
  cut_.delivered(e.source);
  out.emplace_back(deliver{std::move(e)});
}

void failover::route(side s, event e, steady_time now, actions& out) {
  if (!handover_.active()) {
    if (s == serving_ && !cut_.drops(s)) hand_out(std::move(e), out);
    return;
  }
  switch (handover_.where(s)) {
    case handover::route::drop:
      return;
    case handover::route::deliver:
      return hand_out(std::move(e), out);
    case handover::route::hold:
      handover_.hold(s, std::move(e));
      if (handover_.held_bytes() <= settings_.handover_max_bytes) return;
      return break_handover(now, out);
  }
}

void failover::hub_connected(steady_time now, actions& out) {
  if (hub_.now_in() != hub_life::state::connecting) return;
  hub_.connected();
  hello h;
  h.v = protocol_version;
  if (!settings_.name.empty()) h.name = settings_.name;
  h.db = settings_.database;
  out.emplace_back(send_hub{std::move(h)});
  decide(now, out);
}

void failover::hub_failed(std::string reason, bool hopeless, steady_time now, actions& out) {
  hub_.lost(std::move(reason), hopeless, jitter_.next(), now);
  decide(now, out);
}

void failover::hub_denied(std::string reason, steady_time now, actions& out) {
  hub_.lost(std::move(reason), false, jitter_.next(), now);
  hub_.lasts();
  decide(now, out);
}

void failover::hub_closed(std::string reason, steady_time now, actions& out) {
  if (!hub_.open()) return;
  hub_gone(std::move(reason), false, now, out);
  decide(now, out);
}

// The link is closed by us.
void failover::drop_hub(std::string reason, bool slow, steady_time now, actions& out) {
  out.emplace_back(close_hub{});
  hub_gone(std::move(reason), slow, now, out);
}

void failover::hub_gone(std::string reason, bool slow, steady_time now, actions& out) {
  hub_.lost(std::move(reason), slow, jitter_.next(), now);
  for (auto it = set_.all().begin(); it != set_.all().end();) {
    auto& s = it->second;
    s.at_hub = s.hub_active = false;
    s.unanswered = 0;
    const auto& channel = (it++)->first;
    if (!s.wanted) set_.tidy(channel);
  }
  cut_.give_up(side::hub);
  over_limit_.reset();
  side_lost(side::hub, now, out);
}

bool failover::passes(wake& w, steady_time now, event& out) {
  if (!hub_.open() || handover_.active() || serving_ != side::hub || cut_.drops(side::hub)) return false;
  const auto* s = set_.find(w.q);
  if (s == nullptr || !s->served) return false;
  hub_.heard(now);
  cut_.delivered(side::hub);
  out = event_of(w);
  return true;
}

void failover::hub_message(from_hub message, steady_time now, actions& out) {
  if (!hub_.open()) return;
  hub_.heard(now);
  if (auto* w = std::get_if<wake>(&message)) {
    auto e = event_of(*w);
    const bool joining = handover_.active();
    // The hub has missed something, perhaps on either side of the fence that it has yet to pass.
    const bool torn = e.gap != gap_cause::none && handover_.fencing() && !handover_.passed(side::hub);
    route(side::hub, std::move(e), now, out);
    if (torn && handover_.active()) break_handover(now, out);
    if (joining && !handover_.active()) decide(now, out);
    return;
  }
  if (auto* b = std::get_if<bye>(&message)) {
    const bool slow = b->why == code::wrong_database || b->why == code::forbidden || b->why == code::limit;
    drop_hub("the hub says " + std::string(pgwake::to_string(b->why)) + ": " + b->reason, slow, now, out);
  } else if (auto* w1 = std::get_if<welcome>(&message)) {
    hub_welcome(std::move(*w1), now, out);
  } else if (!hub_.up()) {
    if (!std::holds_alternative<unknown_message>(message))
      drop_hub("the hub does not speak this protocol: its first frame is no welcome", false, now, out);
  } else if (const auto* a = std::get_if<ack>(&message)) {
    hub_answer(a->q, nullptr, now, out);
  } else if (const auto* n = std::get_if<nack>(&message)) {
    hub_answer(n->q.text, n, now, out);
  } else if (const auto* s = std::get_if<status>(&message)) {
    hub_status(*s, now, out);
  } else if (const auto* f = std::get_if<pgwake::fence>(&message)) {
    // Anybody may repeat a fence once it is seen; only the first was said by the own session.
    const bool own = f->by == 0 || f->by == own_.backend();
    if (handover_.fencing() && f->id == handover_.id() && own) passed(side::hub, now, out);
  }
  decide(now, out);
}

void failover::hub_welcome(pgwake::welcome w, steady_time now, actions& out) {
  if (hub_.up()) return drop_hub("the hub said welcome twice", false, now, out);
  if (settings_.database && w.db && *settings_.database != *w.db)
    return drop_hub("the hub serves database " + *w.db + ", not " + *settings_.database, true, now, out);
  hub_.welcomed(w, jitter_.next(), now);
  grace_.welcomed();
}

void failover::hub_status(const status& s, steady_time now, actions& out) {
  hub_.told(s, now);
  grace_.told(hub_, jitter_, now);
  if (!handover_.active()) return;
  // On the way to a hub that is ill or leaving, or from one that cannot carry the fence.
  const bool broken = !hub_.healthy() || (handover_.to() == side::hub && hub_.draining());
  if (!broken) return;
  if (!handover_.old_lost())
    abort_handover(now, out);
  else if (handover_.to() == side::hub)
    cancel_handover(now, out);
}

void failover::hub_answer(const std::string& q, const nack* refusal, steady_time now, actions& out) {
  if (cut_.at_mark(side::hub, q)) {
    hub_.answered(now);
    return hub_cut_answered(now, out);
  }
  auto* s = set_.find(q);
  if (s == nullptr) {
    if (q.starts_with(cut_channel)) hub_.answered(now);  // of a cut since given up
    return;
  }
  if (s->unanswered > 0) {
    hub_.answered(now);
    if (--s->unanswered > 0) return;  // the last sub is the one that counts
  } else if (!s->at_hub || refusal == nullptr) {
    return;  // of a subscription that has ended already, or was acked already
  }
  if (refusal != nullptr) return hub_refused(q, *s, *refusal, now, out);
  if (!s->at_hub) return set_.tidy(q);
  s->hub_active = true;
  if (handover_.active() && handover_.to() == side::hub) joined(*s, now, out);
  settle(q, *s, out);
}

// The answer to a sub, or the end of a subscription that was acked: PostgreSQL, or the hub's rules, changed.
void failover::hub_refused(const std::string& q, subscription& s, const nack& refusal, steady_time now,
                           actions& out) {
  s.at_hub = s.hub_active = false;
  if (!s.wanted) return set_.tidy(q);
  abort_handover(now, out);  // it must be whole on either side
  if (serving_ != side::hub) return;
  if (refusal.why != code::limit || !settings_.may_listen())
    return refuse(q, refusal.why, refusal.reason, out);
  over_limit_ = refusal.reason;
  if (s.acked && s.owed == gap_cause::none) s.owed = gap_cause::reconnect;
  set_.set_served(s, false);
  if (slot_.missed()) limit_stands(out);
}

// No own connection is to be had instead: the hub's limit is the caller's error after all.
void failover::limit_stands(actions& out) {
  if (!over_limit_ || serving_ != side::hub) return;
  const auto reason = *std::exchange(over_limit_, std::nullopt);
  std::vector<std::string> refused;
  for (const auto& [channel, s] : set_.all())
    if (s.wanted && !s.at_hub && !s.deferred) refused.push_back(channel);
  for (const auto& channel : refused) refuse(channel, code::limit, reason, out);
}

void failover::sub(const std::string& channel, subscription& s, steady_time now, actions& out) {
  s.at_hub = true;
  s.hub_active = false;
  ++s.unanswered;
  hub_.asked(now);
  out.emplace_back(send_hub{pgwake::sub{{channel, ""}}});
}

void failover::unsub(const std::string& channel, subscription& s, actions& out) {
  s.at_hub = s.hub_active = false;
  out.emplace_back(send_hub{pgwake::unsub{{channel, ""}}});
}

void failover::start_own(actions& out) {
  own_.begin();
  cut_.own_session_changed();
  out.emplace_back(client::start_own{});
  for (auto& [channel, s] : set_.all()) {
    if (!s.wanted) continue;
    s.at_own = true;
    out.emplace_back(want_own{channel});
  }
}

void failover::stop_own(actions& out) {
  out.emplace_back(client::stop_own{});
  own_.end();
  forget_own();
  for (auto it = set_.all().begin(); it != set_.all().end();) {
    it->second.at_own = false;
    const auto& channel = (it++)->first;
    if (!set_.wants(channel)) set_.tidy(channel);
  }
  if (slot_.give_back()) out.emplace_back(release_slot{});
}

void failover::forget_own() {
  for (auto& [channel, s] : set_.all()) s.own_active = false;
  cut_.own_session_changed();
  cut_.give_up(side::own);
}

void failover::own_live(const std::string& database, const std::string& system_id, int backend,
                        steady_time now, actions& out) {
  if (!own_.became_live(database, system_id, backend)) return;
  drain_at_ = now;
  decide(now, out);
}

void failover::own_lost(std::string reason, steady_time now, actions& out) {
  if (!own_.lost(std::move(reason))) return;
  forget_own();
  side_lost(side::own, now, out);
  decide(now, out);
}

void failover::own_trouble(std::string reason, steady_time now, actions& out) {
  if (!own_.failed(std::move(reason))) return;
  limit_stands(out);
  decide(now, out);
}

void failover::own_activated(const std::string& channel, steady_time now, actions& out) {
  auto* s = set_.find(channel);
  if (s == nullptr || !s->at_own || s->own_active || !own_.live()) return;
  s->own_active = true;
  if (handover_.active() && handover_.to() == side::own) joined(*s, now, out);
  if (s->wanted) settle(channel, *s, out);
  decide(now, out);
}

void failover::own_refused(const std::string& channel, code why, const std::string& reason, steady_time now,
                           actions& out) {
  auto* s = set_.find(channel);
  if (s == nullptr || !s->at_own) return;
  s->at_own = s->own_active = false;
  // While the hub serves it, it stays with the hub; what the own connection cannot have shows when
  // it must serve.
  if (handover_.active() && handover_.to() == side::own) {
    abort_handover(now, out);
  } else if (serving_ != side::hub) {
    refuse(channel, why, reason, out);
    fence_if_joined(now, out);  // a hand-over to the hub no longer waits for it
  }
  decide(now, out);
}

void failover::own_notification(int by, std::string_view channel, std::string_view payload, steady_time now,
                                actions& out) {
  if (!own_.live()) return;
  if (channel == fence_channel) {
    if (by != own_.backend()) return;  // somebody repeats what was said
    if (handover_.fencing() && payload == handover_.payload())
      passed(side::own, now, out);
    else if (cut_.at_mark(side::own, payload))
      end_cut(out);
    else
      return;
    return decide(now, out);
  }
  event e;
  e.source = side::own;
  e.by = by;
  e.channel = channel;
  if (!payload.empty()) e.payload = payload;
  const bool joining = handover_.active();
  route(side::own, std::move(e), now, out);
  if (joining && !handover_.active()) decide(now, out);
}

void failover::own_said(std::string_view payload, bool ok, steady_time now, actions& out) {
  if (ok || !own_.live()) return;
  if (handover_.fencing() && payload == handover_.payload()) {
    if (!handover_.old_lost()) abort_handover(now, out);
  } else if (cut_.at_mark(side::own, payload)) {
    begin_cut(side::own, now, out);  // it could not commit; the stream stays dropped until one does
  }
  decide(now, out);
}

}  // namespace pgwake::client
