#include "client/src/core/failover.hpp"

#include <algorithm>
#include <utility>

#include "common/channel.hpp"
#include "common/unicode.hpp"

namespace pgwake::client {

const char* to_string(side s) noexcept {
  switch (s) {
    case side::none:
      return "none";
    case side::hub:
      return "hub";
    case side::own:
      return "own";
  }
  return "none";
}

failover::failover(failover_settings s, std::uint64_t seed)
    : settings_(std::move(s)),
      jitter_(seed),
      hub_(settings_),
      grace_({settings_.unhealthy_grace, settings_.yield_spread, settings_.yield_patience}),
      slot_(settings_.slot_retry),
      return_({settings_.return_delay, settings_.return_delay_cap, settings_.long_stay}),
      reminders_(settings_.poll_interval, settings_.safety_poll) {}

void failover::resume(const std::string& channel) {
  auto& s = set_.record(channel);
  set_.want(s);
  set_.set_acked(s, true);
  s.owed = gap_cause::reconnect;
}

std::vector<std::string> failover::subscribed() const {
  std::vector<std::string> out;
  for (const auto& [channel, s] : set_.all())
    if (s.acked) out.emplace_back(channel);
  return out;
}

void failover::start(steady_time now, actions& out) {
  running_ = true;
  if (settings_.policy != policy::direct) {
    hub_.begin(now);
    out.emplace_back(connect_hub{});
  }
  decide(now, out);
}

void failover::stop(actions& out) {
  running_ = false;
  for (auto& [channel, s] : set_.all())
    answer_all(s, {answer::verdict::ended, code::shutdown, "closed"}, out);
  if (hub_.now_in() != hub_life::state::off && hub_.now_in() != hub_life::state::waiting)
    out.emplace_back(close_hub{});
  hub_.retire();
  if (!own_.off()) out.emplace_back(client::stop_own{});
  own_.end();
  if (slot_.give_back()) out.emplace_back(release_slot{});
}

void failover::subscribe(std::uint64_t request, const std::string& channel, std::optional<steady_time> until,
                         steady_time now, actions& out) {
  if (auto fault = channel_fault(channel)) {
    out.emplace_back(answered{request, {answer::verdict::nack, code::invalid_channel, std::move(*fault)}});
    return;
  }
  // On an own connection it may work, in a SQL_ASCII database; but nobody is always on that one.
  if (settings_.policy != policy::direct && !is_utf8(channel)) {
    out.emplace_back(
        answered{request,
                 {answer::verdict::nack, code::invalid_channel,
                  "the channel name is not UTF-8: it cannot be asked of a hub (policy direct can)"}});
    return;
  }
  if (channel.starts_with(reserved_prefix)) {
    out.emplace_back(answered{
        request, {answer::verdict::nack, code::forbidden, "channels that begin with pgwake. are its own"}});
    return;
  }
  if (set_.find(channel) == nullptr && set_.all().size() >= settings_.max_channels) {
    out.emplace_back(
        answered{request,
                 {answer::verdict::nack, code::limit,
                  "this handle has " + std::to_string(set_.all().size()) + " channels already"}});
    return;
  }
  auto& s = set_.record(channel);
  set_.want(s);
  const bool well = serving_ == side::own || (serving_ == side::hub && hub_.healthy());
  if (s.served && well) {
    out.emplace_back(answered{request, {}});
    return;
  }
  set_.ask(channel, s, request, until, now);
  if (handover_.active()) {
    set_.defer(channel, s);
  } else if (s.served && serving_ == side::hub && s.at_hub && s.unanswered == 0) {
    // Subscribed already, and the hub is ill: its answer to one more sub tells when that holds again.
    sub(channel, s, now, out);
  } else {
    reconcile(channel, now, out);
  }
  if (early()) answer_early(out);
  decide(now, out);
}

void failover::unsubscribe(const std::string& channel, steady_time now, actions& out) {
  if (auto* s = set_.find(channel); s != nullptr && s->wanted)
    drop(channel, *s, answer::verdict::ended, now, out);
  decide(now, out);
}

void failover::answer_all(subscription& s, const answer& how, actions& out) {
  for (const auto id : set_.take_requests(s)) out.emplace_back(answered{id, how});
}

// Subscribed no longer. May forget the entry.
void failover::drop(const std::string& channel, subscription& s, answer::verdict how, steady_time now,
                    actions& out) {
  answer_all(s, {how, code::shutdown, "unsubscribed meanwhile"}, out);
  const bool joining = s.joining;
  set_.unwant(s);
  out.emplace_back(forget{channel});
  if (handover_.active()) {
    set_.defer(channel, s);
    if (joining) fence_if_joined(now, out);
    return;
  }
  reconcile(channel, now, out);
}

// Refused by the side that serves, or by the only one there is.
void failover::refuse(const std::string& channel, code why, const std::string& reason, actions& out) {
  auto* s = set_.find(channel);
  if (s == nullptr || !s->wanted) return set_.tidy(channel);
  answer_all(*s, {answer::verdict::nack, why, reason}, out);
  if (s->acked) {
    event e;
    e.what = event::kind::refused;
    e.source = serving_;
    e.channel = channel;
    e.reason = std::string(to_string(why)) + ": " + reason;
    out.emplace_back(forget{channel});
    out.emplace_back(deliver{std::move(e)});
  } else {
    out.emplace_back(forget{channel});
  }
  set_.unwant(*s);
  if (std::exchange(s->at_own, false)) {
    s->own_active = false;
    out.emplace_back(unwant_own{channel});
  }
  if (handover_.active()) set_.defer(channel, *s);  // the other side may have it yet
  set_.tidy(channel);
}

void failover::expire(steady_time now, actions& out) {
  bool mute = false;
  while (const auto e = set_.next_expired(now)) {
    out.emplace_back(answered{e->request, {answer::verdict::timeout, code::shutdown, why_degraded()}});
    auto& s = set_.all().at(e->channel);
    mute = mute || (serving_ == side::hub && hub_.healthy() && !handover_.active() && s.unanswered > 0 &&
                    now >= e->asked + settings_.welcome_timeout);
    if (!s.acked && s.requests.empty()) drop(e->channel, s, answer::verdict::timeout, now, out);
  }
  if (mute) drop_hub("the hub says it is healthy and does not answer subscriptions", false, now, out);
}

// Whether a subscribe is answered before anybody serves (C1, C11).
bool failover::early() const {
  const bool by_policy =
      settings_.policy == policy::poll || settings_.policy == policy::none || slot_.missed();
  return by_policy && degraded();
}

void failover::answer_early(actions& out) {
  if (!set_.waiting()) return;
  for (auto& [channel, s] : set_.all()) {
    if (s.requests.empty()) continue;
    set_.set_acked(s, true);
    if (!s.served && s.owed == gap_cause::none)
      s.owed = serving_ == side::hub ? gap_cause::reconnect : gap_cause::hub_lost;
    answer_all(s, {}, out);
  }
}

// Nobody serves, and that is known; the very first attempt counts only when it has failed.
bool failover::degraded() const {
  switch (serving_) {
    case side::none:
      return hub_.failed() || hub_.unhealthy() || !own_.off() || slot_.missed();
    case side::hub:
      return hub_.unhealthy();
    case side::own:
      return false;
  }
  return false;
}

void failover::poll(steady_time now, actions& out) {
  const bool while_degraded = settings_.policy == policy::poll || slot_.missed();
  if (!reminders_.due(while_degraded && degraded(), now)) return;
  for (const auto& [channel, s] : set_.all()) {
    if (!s.acked) continue;
    event e;
    e.channel = channel;
    out.emplace_back(deliver{std::move(e)});
  }
}

std::string failover::why_degraded() const {
  std::string why;
  if (settings_.policy != policy::direct && !(serving_ == side::own)) why = hub_.reason();
  if (!slot_.trouble().empty() && slot_.missed()) {
    why += (why.empty() ? "" : "; ") + slot_.trouble();
  } else if (own_.starting() && !own_.reason().empty()) {
    why += (why.empty() ? "own connection: " : "; own connection: ") + own_.reason();
  } else if (grace_.hub_is_full() && own_.off() && serving_ == side::hub) {
    why += "; the server has no connection to spare, so the own one was left to the hub";
  }
  if (why.empty() && set_.unserved() > 0) why = "subscribing";
  return why;
}

void failover::announce(actions& out) {
  standing s;
  s.source = serving_;
  s.healthy = serving_ != side::none && !degraded() && set_.unserved() == 0;
  if (serving_ == side::hub && !hub_.told()) return;
  if (serving_ == side::none && !degraded()) return;  // the very first attempt
  if (!s.healthy)
    s.reason = why_degraded();
  else if (serving_ == side::own && settings_.policy != policy::direct)
    s.reason = hub_.lasting();  // else nobody would learn that it is not used
  if (s == announced_) return;
  announced_ = s;
  event e;
  e.what = event::kind::state;
  e.source = s.source;
  e.healthy = s.healthy;
  e.reason = s.reason;
  out.emplace_back(deliver{std::move(e)});
}

void failover::tick(steady_time now, bool quiet, actions& out) {
  expire(now, out);
  if (quiet) {
    if (const char* late = hub_.overdue(now)) drop_hub(late, false, now, out);
  }
  if (handover_.active() && now >= handover_.until()) break_handover(now, out);
  decide(now, out);
}

bool failover::trying_hub() const {
  return hub_.now_in() == hub_life::state::connecting || hub_.now_in() == hub_life::state::greeting;
}

std::optional<steady_time> failover::deadline() const {
  std::optional<steady_time> at;
  const auto consider = [&](std::optional<steady_time> t) {
    if (t && (!at || *t < *at)) at = t;
  };
  consider(hub_.deadline());
  consider(set_.deadline());
  if (handover_.active()) {
    consider(handover_.until());
  } else {
    if (serving_ == side::own) consider(return_.deadline());
    if (serving_ == side::own) consider(grace_.give_up_at());
    if (serving_ == side::hub && own_.live() && leaving() && hub_.healthy() && !cut_.active())
      consider(drain_at_);
  }
  if (own_.off() && slot_.deadline()) {
    consider(slot_.deadline());
  } else if (own_.off() && !slot_.awaited() && settings_.policy == policy::listener && set_.wanted() > 0) {
    if (hub_.unhealthy()) consider(grace_.until());
    if (hub_.failed() && trying_hub()) consider(hub_.began() + settings_.hub_patience);
  }
  consider(reminders_.deadline());
  return at;
}

}  // namespace pgwake::client
