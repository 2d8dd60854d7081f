#include "daemon/outbox.hpp"

#include <algorithm>

namespace pgwaked {

using pgwake::steady_time;

std::uint64_t outbox::push(kind what, const frame_ptr& frame, int by, steady_time now) {
  items_.push_back(item{frame, 0, frame->size(), now, 1, by, what});
  count_in(items_.back());
  return ++back_;
}

void outbox::count_in(const item& it) {
  bytes_ += it.size;
  if (it.what == kind::ephemeral) {
    ephemeral_bytes_ += it.size;
    ephemeral_frames_ += it.frames;
  } else if (it.what == kind::control || it.what == kind::status) {
    control_bytes_ += it.size;
  }
}

void outbox::count_out(const item& it) {
  bytes_ -= it.size;
  if (it.what == kind::ephemeral) {
    ephemeral_bytes_ -= it.size;
    ephemeral_frames_ -= it.frames;
  } else if (it.what == kind::control || it.what == kind::status) {
    control_bytes_ -= it.size;
  }
}

outbox::item* outbox::untouched(std::uint64_t mark) {
  if (mark < front_ || (mark == front_ && front_written_ > 0)) return nullptr;
  return &items_[mark - front_];
}

void outbox::replace(item& it, kind what, const frame_ptr& frame, int by) {
  count_out(it);
  it.bytes = frame;
  it.size = frame->size();
  it.what = what;
  it.by = by;
  count_in(it);
}

outbox::verdict outbox::durable(outbox_marks& marks, wake_frames& frames, steady_time now) {
  auto* waiting = untouched(marks.durable);
  if (waiting != nullptr && marks.durable > std::max({marks.ack, marks.gap, last_fence_})) {
    if (waiting->by != frames.by && waiting->by != 0)
      replace(*waiting, kind::durable, frames.without_by(), 0);
    return verdict::coalesced;
  }
  marks.durable = push(kind::durable, frames.as_is(), frames.by, now);
  return verdict::queued;
}

outbox::verdict outbox::gap(outbox_marks& marks, const frame_ptr& frame, steady_time now) {
  const auto barrier = std::max({marks.ack, marks.ephemeral, last_fence_});
  if (marks.gap > barrier && untouched(marks.gap) != nullptr) return verdict::coalesced;
  if (auto* waiting = untouched(marks.durable); waiting != nullptr && marks.durable > barrier) {
    replace(*waiting, kind::gap, frame, 0);
    marks.gap = marks.durable;
    marks.durable = 0;
    return verdict::coalesced;
  }
  marks.gap = push(kind::gap, frame, 0, now);
  return verdict::queued;
}

void outbox::ephemeral(outbox_marks& marks, const frame_ptr& bytes, steady_time now, std::size_t begin) {
  const auto size = bytes->size() - begin;
  if (begin > 0 && !items_.empty()) {
    auto& last = items_.back();
    if (last.bytes == bytes && last.begin + last.size == begin) {
      last.size += size;
      ++last.frames;
      ++joined_;
      bytes_ += size;
      ephemeral_bytes_ += size;
      ++ephemeral_frames_;
      marks.ephemeral = back_;
      return;
    }
  }
  items_.push_back(item{bytes, begin, size, now, 1, 0, kind::ephemeral});
  count_in(items_.back());
  marks.ephemeral = ++back_;
}

void outbox::ack(outbox_marks& marks, const frame_ptr& frame, steady_time now) {
  marks.ack = push(kind::control, frame, 0, now);
}

void outbox::fence(const frame_ptr& frame, steady_time now) {
  last_fence_ = push(kind::control, frame, 0, now);
}

void outbox::control(const frame_ptr& frame, steady_time now) { push(kind::control, frame, 0, now); }

outbox::verdict outbox::status(const frame_ptr& frame, steady_time now) {
  if (auto* waiting = untouched(last_status_)) {
    replace(*waiting, kind::status, frame, 0);
    return verdict::coalesced;
  }
  last_status_ = push(kind::status, frame, 0, now);
  return verdict::queued;
}

void outbox::gather(std::vector<std::string_view>& out, std::size_t pieces, std::size_t bytes) const {
  std::size_t skip = front_written_;
  std::size_t total = 0;
  for (const auto& it : items_) {
    if (out.size() >= pieces || total >= bytes) return;
    out.push_back(std::string_view(*it.bytes).substr(it.begin + skip, it.size - skip));
    total += out.back().size();
    skip = 0;
  }
}

void outbox::written(std::size_t bytes, steady_time now, duration_histogram* waited) {
  front_written_ += bytes;
  while (!items_.empty() && front_written_ >= items_.front().size) {
    const auto& gone = items_.front();
    front_written_ -= gone.size;
    count_out(gone);
    joined_ -= gone.frames - 1;
    if (waited != nullptr && gone.what <= kind::gap) waited->add(now - gone.since, gone.frames);
    items_.pop_front();
    ++front_;
  }
}

}  // namespace pgwaked
