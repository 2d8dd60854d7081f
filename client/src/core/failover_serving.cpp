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
  if (serving_ == side::own && !own_.live()) leave(gap_cause::reconnect, now);
  if (serving_ == side::hub && hub_.unhealthy() && own_.live()) {
    abort_handover(now, out);
    const std::string why = hub_.reason();
    leave(gap_cause::hub_lost, now);
    drop_hub(why, false, now, out);
  }
  if (serving_ != side::none) return;
  // An ill hub is no better than an own connection that is being made.
  if (own_.live())
    serve(side::own, now, out);
  else if (hub_.up() && (own_.off() || hub_.healthy()))
    serve(side::hub, now, out);
}

bool failover::own_wanted(steady_time now) const {
  if (settings_.policy == policy::poll || settings_.policy == policy::none) return false;
  if (handover_.active()) return true;
  if (grace_.gives_way(hub_, own_.live(), now)) return false;
  if (set_.wanted() == 0) return !own_.off() && serving_ == side::own && !settings_.limited;
  if (settings_.policy == policy::direct || serving_ == side::own) return true;
  if (hub_.now_in() == hub_life::state::off) return true;
  if (!hub_.up()) {
    if (!hub_.failed()) return false;  // the first attempt ever
    const bool wanted_before = !own_.off() || slot_.missed();
    return wanted_before || !trying_hub() || now >= hub_.began() + settings_.hub_patience;
  }
  if (hub_.unhealthy()) return !own_.off() || slot_.missed() || grace_.over(now);
  if (!hub_.told()) return !own_.off();
  return leaving();
}

void failover::tend_own(steady_time now, actions& out) {
  grace_.passed(now);
  if (!own_wanted(now)) {
    slot_.unwanted();
    if (!own_.off()) {
      const bool gives_way = grace_.gives_way(hub_, own_.live(), now);
      stop_own(out);
      if (serving_ == side::own) {
        if (gives_way) ++counts_.yielded;
        leave(gap_cause::reconnect, now);
      }
      choose_side(now, out);
    }
    return;
  }
  if (!own_.off() || slot_.awaited()) return;
  if (!settings_.limited || slot_.held()) return start_own(out);
  if (!slot_.may_ask(now)) return;
  slot_.asked();
  out.emplace_back(acquire_slot{});
}

void failover::slot(bool granted, std::string trouble, steady_time now, actions& out) {
  slot_.answered(granted, std::move(trouble), jitter_.next(), now);
  if (!granted) limit_stands(out);
  if (granted && running_ && own_wanted(now)) {
    start_own(out);
  } else if (granted) {
    slot_.give_back();
    out.emplace_back(release_slot{});
  }
  decide(now, out);
}

// Nobody serves from here on. What was being served will owe a gap.
void failover::leave(gap_cause cause, steady_time now) {
  if (serving_ == side::hub) return_.left(now);
  serving_ = side::none;
  cut_.give_up();
  return_.cancel();
  for (auto& [channel, s] : set_.all()) {
    set_.set_served(s, false);
    if (s.acked && s.owed == gap_cause::none) s.owed = cause;
  }
}

void failover::serve(side s, steady_time now, actions& out) {
  serving_ = s;
  return_.cancel();
  if (s == side::hub) {
    return_.arrived(now);
    for (auto& [channel, entry] : set_.all())
      if (entry.wanted && !entry.at_hub) sub(channel, entry, now, out);
    if (cut_.needed(side::hub)) begin_cut(side::hub, now, out);
  } else {
    if (hub_.connects() > 0) ++counts_.falls;
    for (auto& [channel, entry] : set_.all()) {
      if (!entry.wanted || std::exchange(entry.at_own, true)) continue;
      out.emplace_back(want_own{channel});
    }
    if (cut_.needed(side::own)) begin_cut(side::own, now, out);
  }
  settle_all(out);
}

// Whether a channel is served now; then what is owed is announced and whoever waits is answered.
void failover::settle(const std::string& channel, subscription& s, actions& out) {
  if (!s.wanted || serving_ == side::none || cut_.drops(serving_) || !s.active(serving_)) return;
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
  if (!own_.off()) {
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
std::string failover::fresh_secret() const {
  std::string out;
  for (int i = 0; i < 2; ++i) {
    auto word = settings_.secret();
    for (int j = 0; j < 16; ++j, word >>= 4U) out += "0123456789abcdef"[word & 15U];
  }
  return out;
}

std::string failover::fresh_mark(side s) const {
  return (s == side::own ? "cut-" : cut_channel) + fresh_secret();
}

void failover::begin_cut(side s, steady_time now, actions& out) {
  cut_.begin(s, fresh_mark(s));
  send_mark(now, out);
}

// Into the stream that is being cut.
void failover::send_mark(steady_time now, actions& out) {
  if (cut_.drops(side::own)) {
    out.emplace_back(say_own{cut_.mark()});
  } else {
    hub_.asked(now);
    out.emplace_back(send_hub{pgwake::sub{{cut_.mark(), ""}}});
  }
}

// A refusal ends a cut as well: this hub lets nobody make one, and a repetition is better than silence.
void failover::hub_cut_answered(steady_time now, actions& out) {
  pgwake::unsub done;
  done.q.text = cut_.mark();
  out.emplace_back(send_hub{std::move(done)});
  if (cut_.at_last_mark()) return end_cut(out);
  cut_.go_on(fresh_mark(side::hub));
  send_mark(now, out);
}

void failover::end_cut(actions& out) {
  cut_.end();
  settle_all(out);
}

}  // namespace pgwake::client
