#include <utility>
#include <variant>

#include "common/channel.hpp"
#include "unit/client/failover_world.hpp"

// The world's hub and own connection, and what the client reads of them.
namespace pgwake::test {

using client::event;

// The hub

status failover_world::hub_status() const {
  status s;
  s.healthy = hub_healthy_;
  s.draining = hub_draining_;
  s.full = !hub_healthy_ && hub_full_;
  return s;
}

// Cuts are let through: one that is refused may be the reason for a repetition.
bool failover_world::refuses(const std::string& q) const {
  const auto waiting = hub_unanswered_.find(q);
  return hub_limited_ && !hub_subs_.contains(q) && hub_subs_.size() >= 2 &&
         (waiting == hub_unanswered_.end() || waiting->second == 0) && !q.starts_with(client::cut_channel);
}

void failover_world::hub_to_client(from_hub m) {
  if (linked_) from_hub_.push_back({std::move(m), false});
}

void failover_world::hub_takes(from_worker m) {
  if (std::get_if<hello>(&m)) {
    welcome w;
    w.hub = "hub " + std::to_string(hub_generation_);
    w.db = "db";
    w.fence = token_;
    w.heartbeat_ms = 1000;
    hub_to_client(w);
    hub_to_client(hub_status());
  } else if (auto* s = std::get_if<sub>(&m)) {
    const auto& q = s->q.text;
    if (refuses(q)) {
      nack n;
      n.q.text = q;
      n.why = code::limit;
      n.reason = "full";
      return hub_to_client(std::move(n));
    }
    ++hub_unanswered_[q];
    if (!hub_subs_.contains(q)) hub_subs_[q] = 0;
    if (hub_healthy_ && hub_session_.listening.contains(q)) {
      hub_subs_[q] = 1;
      for (; hub_unanswered_[q] > 0; --hub_unanswered_[q]) hub_to_client(ack{q});
    } else {
      hub_session_.to_listen.push_back(q);
    }
  } else if (auto* u = std::get_if<unsub>(&m)) {
    hub_subs_.erase(u->q.text);
    hub_gaps_.erase(u->q.text);
  }
}

// Its session with PostgreSQL: one LISTEN at a time, then what is new in the log. It stays listening to what
// nobody wants any more, as with `unlisten_linger`.
void failover_world::hub_upstream() {
  auto& s = hub_session_;
  if (!s.open) {
    if (now_ < hub_back_at_ || (hub_full_ && own_.open && now_ < hub_back_at_ + millis{10'000})) return;
    hub_full_ = false;
    s = {};
    s.open = true;
    s.place = log_.size();
    note("hub: upstream is back");
    for (const auto& [q, active] : hub_subs_) s.to_listen.push_back(q);
  }
  if (!s.to_listen.empty() && chance(0.5)) {
    const auto q = s.to_listen.front();
    s.to_listen.pop_front();
    s.listening.insert(q);
    for (; hub_unanswered_[q] > 0; --hub_unanswered_[q]) {
      if (hub_subs_.contains(q)) hub_subs_[q] = 1;
      hub_to_client(ack{q});
    }
    if (hub_gaps_.erase(q) > 0) {
      wake w;
      w.q = q;
      w.gap = gap_cause::reconnect;
      hub_to_client(w);
    }
    // What was committed by now is passed on before the next LISTEN.
    hub_reads();
  }
  if (s.to_listen.empty() && !hub_healthy_) {
    hub_healthy_ = true;
    hub_to_client(hub_status());
  }
}

void failover_world::hub_reads() {
  auto& s = hub_session_;
  for (; s.open && s.place < log_.size(); ++s.place) {
    const auto& e = log_[s.place];
    if (e.channel == fence_channel) {
      const auto at = e.payload.find(':');
      if (e.payload.substr(0, at) == token_) hub_to_client(fence{std::stoull(e.payload.substr(at + 1)), 7});
    } else if (s.listening.contains(e.channel) && hub_subs_.contains(e.channel)) {
      wake w;
      w.q = e.channel;
      w.payload = e.payload;
      hub_to_client(w);
    }
  }
}

void failover_world::hub_turn() {
  if (!hub_runs_ || hub_frozen_) return;
  if (hub_draining_ && now_ >= hub_stops_at_) return lose_hub();
  while (!to_hub_.empty() && linked_ && chance(0.8)) {
    auto m = std::move(to_hub_.front());
    to_hub_.pop_front();
    hub_takes(std::move(m));
  }
  if (chance(0.6)) hub_upstream();
  if (chance(0.5)) hub_reads();
  if (linked_ && now_ >= status_at_) {
    status_at_ = now_ + millis{900};
    hub_to_client(hub_status());
  }
}

// kill -9, or the end of a drain.
void failover_world::lose_hub() {
  note("hub: gone");
  hub_runs_ = hub_frozen_ = hub_draining_ = hub_full_ = false;
  hub_session_ = {};
  hub_healthy_ = false;
  hub_subs_.clear();
  hub_unanswered_.clear();
  hub_gaps_.clear();
  to_hub_.clear();
  if (linked_) from_hub_.push_back({status{}, true});
  linked_ = false;
}

void failover_world::client_reads() {
  while (!from_hub_.empty() && chance(0.9)) {
    auto f = std::move(from_hub_.front());
    from_hub_.pop_front();
    auto* w = std::get_if<wake>(&f.what);
    if (event e; f.end)
      core_.hub_closed("end of file", now_, actions_);
    else if (w != nullptr && core_.passes(*w, now_, e))
      queue_.push(std::move(e));
    else
      core_.hub_message(std::move(f.what), now_, actions_);
    carry_out();
  }
}

// The own connection

void failover_world::own_turn() {
  if (!own_started_) return;
  if (!own_.open) {
    if (now_ < own_opens_at_ || !own_allowed_) return;
    own_ = {};
    own_.open = true;
    own_.place = log_.size();
    own_.listening.insert(std::string(fence_channel));
    own_says_.clear();
    own_wants_.assign(own_wanted_.begin(), own_wanted_.end());
    note("own: live");
    core_.own_live("db", "1", 7, now_, actions_);
    return carry_out();
  }
  if (!own_says_.empty() && chance(0.6)) {
    const auto payload = own_says_.front();
    own_says_.pop_front();
    const bool ok = chance(0.9);
    if (ok) commit(std::string(fence_channel), payload, 0);
    core_.own_said(payload, ok, now_, actions_);
    return carry_out();
  }
  if (!own_wants_.empty() && chance(0.6)) {
    const auto channel = own_wants_.front();
    own_wants_.pop_front();
    if (own_.listening.insert(channel).second && own_wanted_.contains(channel)) {
      core_.own_activated(channel, now_, actions_);
      carry_out();
    }
    return;
  }
  while (own_.open && own_.place < log_.size() && chance(0.7)) {
    const auto e = log_[own_.place++];
    if (!own_.listening.contains(e.channel)) continue;
    core_.own_notification(7, e.channel, e.payload, now_, actions_);
    carry_out();
  }
}

}  // namespace pgwake::test
