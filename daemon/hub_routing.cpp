#include <algorithm>
#include <charconv>

#include "daemon/hub_parts.hpp"

// What PostgreSQL and the clock say, on its way to the workers.
namespace pgwaked {

using namespace pgwake;

void hub::activated(const std::string& name, steady_time now) {
  const auto it = channels_.find(name);
  if (it == channels_.end()) return;
  auto& c = *it->second;
  c.active = true;
  impatient_.erase(name);
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
    w.held.erase(&c);  // unsubscribed meanwhile: now that its acks are out, it goes
    const bool last = c.held.size() == 1;
    drop(c, i);
    if (last) break;  // the channel is gone
  }
  judge_total();
}

void hub::queue_gap(worker& w, subscription& s, routed& gap, steady_time now) {
  const auto before = w.out.bytes();
  w.out.gap(s.marks, gap.in(w.dialect).as_is(), now);
  ++totals_.gaps;
  settle(w, before);
}

void hub::refused(const std::string& name, code why, const std::string& sqlstate, const std::string& reason,
                  steady_time now) {
  const auto it = channels_.find(name);
  if (it == channels_.end()) return;
  auto& c = *it->second;
  while (true) {
    auto& s = c.held.back();
    auto& w = *s.who;
    const auto before = w.out.bytes();
    const auto frame =
        encode(w.dialect, nack{wire_name{dialects_[w.dialect]->name(name), ""}, why, reason, sqlstate});
    // A subscription that was acked in an earlier session ends here: it must not stay silently deaf.
    for (auto n = std::max<std::uint32_t>(s.pending, s.subscribed ? 1 : 0); n > 0; --n) {
      w.out.control(frame, now);
      ++totals_.nacks;
    }
    settle(w, before);
    if (s.pending > 1) w.repeated -= s.pending - 1;
    w.held.erase(&c);
    const bool last = c.held.size() == 1;
    drop(c, c.held.size() - 1);
    if (last) break;
  }
  judge_total();
}

void hub::upstream_lost(steady_time) {
  for (auto& [name, c] : channels_) {
    c->active = false;
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
    const auto before = w.out.bytes();
    if (view.payload) {
      const auto [bytes, begin] = run_.in(w.dialect, *dialects_[w.dialect]);
      w.out.ephemeral(s.marks, bytes, now, begin);
    } else if (w.out.durable(s.marks, wake.in(w.dialect), now) == outbox::verdict::coalesced) {
      ++w.coalesced;
      ++totals_.coalesced;
      outbox_bytes_ += w.out.bytes() - before;
      continue;
    }
    ++w.delivered;
    ++totals_.delivered;
    settle(w, before);
  }
  if (!doomed_.empty() || outbox_bytes_ > limits_.outbox_total_max_bytes) judge_total();
}

bool hub::fence(std::string_view payload, steady_time now) {
  const auto colon = payload.rfind(':');
  if (colon == std::string_view::npos) return false;
  const auto digits = payload.substr(colon + 1);
  std::uint64_t n = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
  if (error != std::errc{} || end != digits.data() + digits.size()) return false;
  const auto token = tokens_.find(payload.substr(0, colon));
  if (token == tokens_.end()) return false;
  auto& w = *workers_.at(token->second);
  const auto frame = encode(w.dialect, pgwake::fence{n});
  const auto before = w.out.bytes();
  if (frame) w.out.fence(frame, now);
  ++totals_.fences;
  settle(w, before);
  judge_total();
  return true;
}

void hub::tick(steady_time now) {
  if (next_heartbeat_ && now >= *next_heartbeat_) {
    next_heartbeat_ = workers_.empty() ? std::nullopt : std::optional(now + limits_.heartbeat);
    health(status(status_), now);
  }
  if (status_.healthy) return;
  std::vector<std::string> due;
  for (const auto& [name, at] : impatient_)
    if (at <= now) due.push_back(name);
  for (const auto& name : due) impatient(name, now);
  judge_total();
}

// S3: a v0 worker left without an answer turns deaf for good, so it gets its ack now and owes a gap.
void hub::impatient(const std::string& name, steady_time now) {
  auto& c = *channels_.find(name)->second;
  impatient_.erase(name);
  for (std::size_t i = 0; i < c.held.size();) {
    auto& s = c.held[i];
    auto& w = *s.who;
    const auto due = s.asked + limits_.v0_patience;
    if (w.dialect != 0 || s.pending == 0) {
      ++i;
    } else if (due > now) {
      auto& at = impatient_.try_emplace(name, due).first->second;
      at = std::min(at, due);
      ++i;
    } else if (queue_acks(w, c, s, now); s.subscribed) {
      s.owes_gap = true;
      ++i;
    } else {
      w.held.erase(&c);
      const bool last = c.held.size() == 1;
      drop(c, i);
      if (last) return;  // the channel is gone
    }
  }
}

std::optional<steady_time> hub::deadline() const {
  auto at = next_heartbeat_;
  if (status_.healthy) return at;
  for (const auto& [name, due] : impatient_) at = at ? std::min(*at, due) : due;
  return at;
}

}  // namespace pgwaked
