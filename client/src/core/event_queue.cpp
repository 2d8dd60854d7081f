#include "client/src/core/event_queue.hpp"

#include <utility>

namespace pgwake::client {
namespace {

constexpr std::size_t deque_block = 512;     // of libstdc++
constexpr std::size_t block_header = 8 + 8;  // the allocator's, and the block's place in the deque's map
constexpr std::size_t few = 64;

}  // namespace

std::size_t event_queue::cost(const event& e) {
  static_assert(sizeof(slot) <= deque_block);
  constexpr auto of_a_slot = (deque_block + block_header) / (deque_block / sizeof(slot));
  return of_a_slot + e.heap();
}

// A node of the table, and its place there.
std::size_t event_queue::cost_of_marks(const std::string& channel) {
  return sizeof(std::pair<const std::string, marks>) + 3 * sizeof(void*) + block_header + heap_of(channel);
}

event_queue::place event_queue::append(event&& e) {
  if (slots_.size() > 2 * live_ + few) compact();
  const place p = first_ + slots_.size();
  // Memory first: when there is none, the queue is as it was.
  auto* m = e.what == event::kind::wake ? &channels_[e.channel] : nullptr;
  if (m != nullptr && m->waiting == 0) m->cost = cost_of_marks(e.channel);
  auto& s = slots_.emplace_back();
  s.what = std::move(e);
  s.of = m;
  s.cost = cost(s.what);
  bytes_ += s.cost;
  if (s.what.ephemeral()) ephemeral_bytes_ += s.cost;
  if (s.what.what == event::kind::subscribed) answer_bytes_ += s.cost;
  if (m != nullptr && m->waiting == 0) bytes_ += m->cost;
  if (m != nullptr) {
    ++m->waiting;
    if (s.what.payload)
      m->ephemeral = p;
    else if (s.what.gap != gap_cause::none)
      m->gap = p;
    else
      m->durable = p;
  }
  ++live_;
  return p;
}

void event_queue::take(place p, event& out) {
  auto& s = at(p);
  s.gone = true;
  --live_;
  out = std::move(s.what);
  bytes_ -= s.cost;
  if (out.ephemeral()) ephemeral_bytes_ -= s.cost;
  if (out.what == event::kind::subscribed) answer_bytes_ -= s.cost;
  if (auto* m = s.of) {
    if (m->durable == p) m->durable = 0;
    if (m->gap == p) m->gap = 0;
    if (m->ephemeral == p) m->ephemeral = 0;
    if (--m->waiting == 0) {
      bytes_ -= m->cost;
      channels_.erase(out.channel);
    }
  }
  if (state_ == p) state_ = 0;
  while (!slots_.empty() && slots_.front().gone) {
    slots_.pop_front();
    ++first_;
  }
}

void event_queue::drop(place p) {
  event ignored;
  take(p, ignored);
}

// Closes the gaps between those that wait. Needs no memory.
void event_queue::compact() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].gone) continue;
    const place from = first_ + i;
    const place to = first_ + kept;
    if (auto* m = slots_[i].of) {
      if (m->durable == from) m->durable = to;
      if (m->gap == from) m->gap = to;
      if (m->ephemeral == from) m->ephemeral = to;
    }
    if (state_ == from) state_ = to;
    if (kept != i) slots_[kept] = std::move(slots_[i]);
    ++kept;
  }
  slots_.erase(slots_.begin() + static_cast<std::ptrdiff_t>(kept), slots_.end());
}

// True if nothing needs to be appended.
bool event_queue::merge(const event& e) {
  if (e.payload) return false;
  auto it = channels_.find(e.channel);
  if (it == channels_.end()) return false;
  if (e.gap == gap_cause::none) {
    const auto& m = it->second;
    if (m.durable == 0 || m.gap > m.durable) return false;
    auto& waiting = at(m.durable).what;
    if (waiting.by != e.by) waiting.by = 0;
    waiting.source = e.source;
    ++coalesced_;
    return true;
  }
  if (it->second.durable != 0) {
    drop(it->second.durable);
    it = channels_.find(e.channel);
    if (it == channels_.end()) return false;
  }
  const auto& m = it->second;
  if (m.gap == 0 || m.ephemeral > m.gap) return false;
  at(m.gap).what.gap = e.gap;
  at(m.gap).what.source = e.source;
  return true;
}

void event_queue::overflow(const std::string& channel) {
  event gap;
  gap.channel = channel;
  gap.gap = gap_cause::overflow;
  push(std::move(gap));
}

void event_queue::push(event&& e) {
  if (e.what == event::kind::state) {
    if (state_ != 0) drop(state_);
    state_ = append(std::move(e));
    return;
  }
  if (e.what == event::kind::refused || e.what == event::kind::subscribed) {
    append(std::move(e));
    return;
  }
  if (e.ephemeral() && ephemeral_bytes_ + cost(e) > max_bytes_) {
    ++discarded_;
    return overflow(e.channel);
  }
  if (merge(e)) return;
  ++wakes_;
  if (e.gap != gap_cause::none) ++gaps_;
  append(std::move(e));
}

bool event_queue::pop(event& out) {
  if (slots_.empty()) return false;
  take(first_, out);
  return true;
}

void event_queue::forget(const std::string& channel) {
  const auto it = channels_.find(channel);
  if (it == channels_.end()) return;
  auto left = it->second.waiting;
  for (place p = first_; left > 0 && p < first_ + slots_.size();) {
    auto& s = at(p);
    const bool mine = !s.gone && s.what.what == event::kind::wake && s.what.channel == channel;
    if (mine) {
      --left;
      drop(p);
      if (p < first_) p = first_;  // the front went away
    } else {
      ++p;
    }
  }
}

}  // namespace pgwake::client
