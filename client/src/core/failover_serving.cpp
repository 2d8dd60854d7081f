#include <algorithm>
#include <utility>

#include "client/src/core/failover.hpp"

// Who serves, and what the other side is kept for.
namespace pgwake::client {

// Brings together what is looked at apart. Called after every event; does nothing when nothing is to be done.
void failover::decide(steady_time now, actions& out) {
  if (!running_) return;
  if (hub_.due(now)) {
    hub_.begin(now);
    out.emplace_back(connect_hub{});
  }
  choose_side(now, out);
  tend_own(now, out);
  consider_handover(now, out);
  if (!settings_.reattach && serving_ == side::own && hub_.now_in() != hub_life::state::off) {
    if (hub_.open() || trying_hub()) drop_hub("reattach=never", false, now, out);
    hub_.retire();
  }
  if (early()) answer_early(out);
  poll(now, out);
  announce(out);
}

void failover::choose_side(steady_time now, actions& out) {
  if (handover_.active() && handover_.old_lost()) return;  // the new side has yet to pass the fence
  if (serving_ == side::hub && !hub_.up()) leave(gap_cause::hub_lost, now);
  if (serving_ == side::own && own_ != own_state::live) leave(gap_cause::reconnect, now);
  if (serving_ == side::hub && hub_.unhealthy() && own_ == own_state::live) {
    abort_handover(now, out);
    const std::string why = hub_.reason();
    leave(gap_cause::hub_lost, now);
    drop_hub(why, false, now, out);
  }
  if (serving_ != side::none) return;
  // An ill hub is no better than an own connection that is being made.
  if (own_ == own_state::live)
    serve(side::own, now, out);
  else if (hub_.up() && (own_ == own_state::off || hub_.healthy()))
    serve(side::hub, now, out);
}

bool failover::own_wanted(steady_time now) const {
  if (settings_.policy == policy::poll || settings_.policy == policy::none) return false;
  if (handover_.active()) return true;
  if (yields(now)) return false;
  if (set_.wanted() == 0) return own_ != own_state::off && serving_ == side::own && !settings_.limited;
  if (settings_.policy == policy::direct || serving_ == side::own) return true;
  if (hub_.now_in() == hub_life::state::off) return true;
  if (!hub_.up()) {
    if (!hub_.failed()) return false;  // the first attempt ever
    const bool wanted_before = own_ != own_state::off || slot_missed_;
    return wanted_before || !trying_hub() || now >= hub_.began() + settings_.hub_patience;
  }
  if (hub_.unhealthy()) return own_ != own_state::off || slot_missed_ || now >= fall_at_;
  if (!hub_.told()) return own_ != own_state::off;
  return leaving();
}

// A hub that finds no connection gets this one's: it serves all. Once, so that nobody is deaf for longer if
// that was of no use. An attempt that has not got one yet competes with the hub and ends at once.
bool failover::yields(steady_time now) const {
  return full_ && hub_.full() && now < yield_until_ && (own_ != own_state::live || now >= yield_at_);
}

void failover::tend_own(steady_time now, actions& out) {
  yield_due_ = yield_due_ && now < yield_at_;
  if (!own_wanted(now)) {
    slot_missed_ = false;
    if (own_ != own_state::off) {
      stop_own(out);
      if (serving_ == side::own) {
        if (yields(now)) ++counts_.yielded;
        leave(gap_cause::reconnect, now);
      }
      choose_side(now, out);
    }
    return;
  }
  if (own_ != own_state::off || slot_asked_) return;
  if (!settings_.limited || slot_held_) return start_own(out);
  if (slot_missed_ && now < slot_at_) return;
  slot_asked_ = true;
  out.emplace_back(acquire_slot{});
}

void failover::slot(bool granted, std::string trouble, steady_time now, actions& out) {
  slot_asked_ = false;
  slot_missed_ = !granted;
  slot_held_ = granted;
  slot_trouble_ = std::move(trouble);
  const auto retry = settings_.slot_retry;
  slot_at_ = now + retry -
             millis{static_cast<std::int64_t>(jitter_.next() * static_cast<double>(retry.count()) / 4)};
  if (!granted) limit_stands(out);
  if (granted && running_ && own_wanted(now)) {
    start_own(out);
  } else if (granted) {
    slot_held_ = false;
    out.emplace_back(release_slot{});
  }
  decide(now, out);
}

// Nobody serves from here on. What was being served will owe a gap.
void failover::leave(gap_cause cause, steady_time now) {
  if (serving_ == side::hub) {
    short_stays_ = now - hub_since_ < settings_.long_stay ? short_stays_ + 1 : 0;
  }
  serving_ = side::none;
  cut_ = {};
  return_due_ = false;
  for (auto& [channel, s] : set_.all()) {
    set_.set_served(s, false);
    if (s.acked && s.owed == gap_cause::none) s.owed = cause;
  }
}

void failover::serve(side s, steady_time now, actions& out) {
  serving_ = s;
  return_due_ = false;
  if (s == side::hub) {
    hub_since_ = now;
    for (auto& [channel, entry] : set_.all())
      if (entry.wanted && !entry.at_hub) sub(channel, entry, now, out);
    if (delivered_ == side::own) begin_cut(side::hub, now, out);
  } else {
    if (hub_.connects() > 0) ++counts_.falls;
    for (auto& [channel, entry] : set_.all()) {
      if (!entry.wanted || std::exchange(entry.at_own, true)) continue;
      out.emplace_back(want_own{channel});
    }
    if (overlap_) begin_cut(side::own, now, out);
  }
  settle_all(out);
}

// Whether a channel is served now; then what is owed is announced and whoever waits is answered.
void failover::settle(const std::string& channel, subscription& s, actions& out) {
  if (!s.wanted || serving_ == side::none || cut_.on == serving_ || !s.active(serving_)) return;
  if (s.owed != gap_cause::none) {
    event e;
    e.source = serving_;
    e.gap = std::exchange(s.owed, gap_cause::none);
    e.channel = channel;
    out.emplace_back(deliver{std::move(e)});
  }
  set_.set_acked(s, true);
  set_.set_served(s, true);
  answer_all(s, {}, out);
}

void failover::settle_all(actions& out) {
  for (auto& [channel, s] : set_.all()) settle(channel, s, out);
}

// Brings both sides' idea of a channel up to the application's. Not during a hand-over. May forget the entry.
void failover::reconcile(const std::string& channel, steady_time now, actions& out) {
  auto* s = set_.find(channel);
  if (s == nullptr) return;
  if (hub_.up()) {
    if (s->wanted && serving_ == side::hub && !s->at_hub) sub(channel, *s, now, out);
    if (s->at_hub && (!s->wanted || serving_ != side::hub)) unsub(channel, *s, out);
  }
  if (own_ != own_state::off) {
    if (s->wanted && !s->at_own) {
      s->at_own = true;
      out.emplace_back(want_own{channel});
    } else if (!s->wanted && s->at_own) {
      s->at_own = false;
      s->own_active = false;
      out.emplace_back(unwant_own{channel});
    }
  }
  settle(channel, *s, out);
  set_.tidy(channel);
}

// 32 digits.
std::string failover::fresh_mark() const {
  std::string out;
  for (int i = 0; i < 2; ++i) {
    auto word = settings_.secret();
    for (int j = 0; j < 16; ++j, word >>= 4U) out += "0123456789abcdef"[word & 15U];
  }
  return out;
}

void failover::begin_cut(side s, steady_time now, actions& out) {
  cut_ = {s, std::string(s == side::own ? "cut-" : cut_channel) + fresh_mark(), false};
  if (s == side::own) {
    out.emplace_back(say_own{cut_.mark});
  } else {
    hub_.asked(now);
    out.emplace_back(send_hub{pgwake::sub{{cut_.mark, ""}}});
  }
}

// A refusal ends a cut as well: this hub lets nobody make one, and a repetition is better than silence.
void failover::hub_cut_answered(steady_time now, actions& out) {
  pgwake::unsub done;
  done.q.text = cut_.mark;
  out.emplace_back(send_hub{std::move(done)});
  if (cut_.second) return end_cut(out);
  begin_cut(side::hub, now, out);
  cut_.second = true;
}

void failover::end_cut(actions& out) {
  delivered_ = std::exchange(cut_, {}).on;
  overlap_ = false;
  settle_all(out);
}

// When to hand over to the hub, now that it is well: soon, but not all at once, and later each time it
// did not last.
void failover::plan_return(steady_time now) {
  const auto doubled = settings_.return_delay.count() << std::min(std::max(short_stays_, 1U) - 1, 16U);
  const auto most = static_cast<double>(std::min<std::int64_t>(doubled, settings_.return_delay_cap.count()));
  return_at_ = now + millis{static_cast<std::int64_t>(most * (0.1 + 0.9 * jitter_.next()))};
  return_due_ = true;
}

}  // namespace pgwake::client
