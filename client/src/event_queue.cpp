#include "client/src/event_queue.hpp"

#include <utility>

namespace pgwake::client {

event_queue::place event_queue::append(event&& e) {
  const place p = first_ + slots_.size();
  // Memory first: when there is none, the queue is as it was.
  auto* m = e.what == event::kind::wake ? &channels_[e.channel] : nullptr;
  auto& s = slots_.emplace_back();
  s.what = std::move(e);
  s.of = m;
  if (s.what.ephemeral()) bytes_ += s.what.bytes();
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
  if (out.ephemeral()) bytes_ -= out.bytes();
  if (auto* m = s.of) {
    if (m->durable == p) m->durable = 0;
    if (m->gap == p) m->gap = 0;
    if (m->ephemeral == p) m->ephemeral = 0;
    if (--m->waiting == 0) channels_.erase(out.channel);
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
  if (e.what == event::kind::refused) {
    append(std::move(e));
    return;
  }
  if (e.ephemeral() && bytes_ + e.bytes() > max_bytes_) {
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
