#include <algorithm>
#include <charconv>
#include <utility>

#include "daemon/core/hub_parts.hpp"

// What PostgreSQL and the clock say, on its way to the workers.
namespace pgwaked {

using namespace pgwake;

void hub::activated(const std::string& name, steady_time now) {
  const auto it = channels_.find(name);
  if (it == channels_.end()) return;
  auto& c = *it->second;
  if (!std::exchange(c.active, true)) --inactive_;
  wait_until(c, std::nullopt);
  wake_view view;
  view.q = c.name;
  view.gap = gap_cause::reconnect;
  routed gap(*this, view);
  for (std::size_t i = 0; i < c.held.size();) {
    auto& s = c.held[i];
    auto& w = *s.who;
    queue_acks(w, c, s, now);
    if (s.owes_gap) {
      queue_gap(w, s, gap, now);
      s.owes_gap = false;
    }
    if (s.subscribed) {
      ++i;
      continue;
    }
    const bool last = c.held.size() == 1;
    drop(c, i);       // unsubscribed meanwhile: now that its acks are out, it goes
    if (last) break;  // the channel is gone
  }
  judge_total();
}

void hub::queue_gap(worker& w, subscription& s, routed& gap, steady_time now) {
  ++totals_.gaps;
  if (dialects_[w.dialect]->answers_itself()) return;
  const auto before = w.out.memory();
  w.out.gap(s.marks, gap.in(w.dialect).as_is(), now);
  settle(w, before, now);
}

void hub::refused(const std::string& name, code why, const std::string& sqlstate, const std::string& reason,
                  steady_time now) {
  const auto it = channels_.find(name);
  if (it == channels_.end()) return;
  auto& c = *it->second;
  while (true) {
    auto& s = c.held.back();
    auto& w = *s.who;
    const auto before = w.out.memory();
    const auto frame =
        encode(w.dialect, nack{wire_name{dialects_[w.dialect]->name(name), ""}, why, reason, sqlstate});
    // A subscription that was acked in an earlier session ends here: it must not stay silently deaf.
    for (auto n = std::max<std::uint32_t>(s.pending, s.subscribed ? 1 : 0); n > 0; --n) {
      if (frame)
        w.out.control(frame, now);
      else
        actions_.push_back(denied{w.id, name, why, sqlstate, reason});
      ++totals_.nacks;
    }
    settle(w, before, now);
    if (s.pending > 0 || s.subscribed) say_no(w, why, reason);
    if (s.pending > 1) w.repeated -= s.pending - 1;
    const bool last = c.held.size() == 1;
    drop(c, c.held.size() - 1);
    if (last) break;
  }
  judge_total();
}

void hub::upstream_lost(steady_time) {
  for (auto& [name, c] : channels_) {
    if (std::exchange(c->active, false)) ++inactive_;
    for (auto& s : c->held)
      if (s.acked) s.owes_gap = true;
  }
}

void hub::notification(std::string_view name, std::string_view payload, int by, steady_time now) {
  ++totals_.notifications;
  const auto it = channels_.find(name);
  if (it == channels_.end()) {
    ++totals_.unrouted;
    return;
  }
  wake_view view;
  view.q = name;
  view.by = by;
  if (!payload.empty()) view.payload = payload;
  routed wake(*this, view);
  if (view.payload) run_.next(it->second.get(), view);
  for (auto& s : it->second->held) {
    if (!s.subscribed) continue;
    auto& w = *s.who;
    if (s.owes_gap) {
      // This wake overtook the answer of its LISTEN: the gap goes before it, and stays owed until LISTEN is
      // known to be active, since till then the batch may be taken back (a name that the server cut).
      wake_view announced;
      announced.q = name;
      announced.gap = gap_cause::reconnect;
      routed gap(*this, announced);
      queue_gap(w, s, gap, now);
    }
    const auto before = w.out.memory();
    if (view.payload) {
      const auto [bytes, begin] = run_.in(w.dialect, *dialects_[w.dialect]);
      w.out.ephemeral(s.marks, bytes, now, begin);
    } else if (w.out.durable(s.marks, wake.in(w.dialect), now) == outbox::verdict::coalesced) {
      ++w.coalesced;
      ++totals_.coalesced;
      held_bytes_ += w.out.memory() - before;
      continue;
    }
    ++w.delivered;
    ++totals_.delivered;
    settle(w, before, now);
  }
  if (!doomed_.empty() || held_bytes_ > limits_.outbox_total_max_bytes) judge_total();
}

// Behind a loss its stream has a hole up to the gap, and a fence in front of that would hide it.
bool hub::whole(const worker& w) const {
  return inactive_ == 0 || std::none_of(w.held.begin(), w.held.end(), [](const auto& h) {
           return !h.first->active && h.first->held[h.second].subscribed;
         });
}

bool hub::fence(std::string_view payload, int by, steady_time now) {
  const auto colon = payload.rfind(':');
  if (colon == std::string_view::npos) return false;
  const auto digits = payload.substr(colon + 1);
  std::uint64_t n = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
  if (error != std::errc{} || end != digits.data() + digits.size()) return false;
  const auto token = tokens_.find(payload.substr(0, colon));
  if (token == tokens_.end()) return false;
  auto& w = *workers_.at(token->second);
  if (!whole(w) || w.out.fences() >= limits_.max_unsent_fences) return true;
  const auto frame = encode(w.dialect, pgwake::fence{n, by});
  const auto before = w.out.memory();
  if (frame) w.out.fence(frame, now);
  ++totals_.fences;
  settle(w, before, now);
  judge_total();
  return true;
}

void hub::tick(steady_time now) {
  if (next_heartbeat_ && now >= *next_heartbeat_) {
    next_heartbeat_ = workers_.empty() ? std::nullopt : std::optional(now + limits_.heartbeat);
    health(status(status_), now);
  }
  look_at_slow(now);
  while (!impatient_.empty() && impatient_.begin()->first <= now)
    impatient(*channels_.find(impatient_.begin()->second)->second, now);
  judge_total();
}

// S3: whoever turns deaf when left without an answer gets its ack now and is owed a gap.
void hub::impatient(channel& c, steady_time now) {
  wait_until(c, std::nullopt);
  for (std::size_t i = 0; i < c.held.size();) {
    auto& s = c.held[i];
    auto& w = *s.who;
    const auto patience = dialects_[w.dialect]->patience();
    if (!patience || s.pending == 0) {
      ++i;
    } else if (const auto due = s.asked + *patience; due > now) {
      if (!c.due || due < *c.due) wait_until(c, due);
      ++i;
    } else if (queue_acks(w, c, s, now); s.subscribed) {
      s.owes_gap = true;
      ++i;
    } else {
      const bool last = c.held.size() == 1;
      drop(c, i);
      if (last) return;  // the channel is gone
    }
  }
}

std::optional<steady_time> hub::deadline() const {
  auto at = next_heartbeat_;
  const auto sooner = [&at](steady_time other) { at = at ? std::min(*at, other) : other; };
  if (!impatient_.empty()) sooner(impatient_.begin()->first);
  if (!slow_.empty()) sooner(slow_.begin()->first);
  return at;
}

}  // namespace pgwaked
