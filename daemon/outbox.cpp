#include "daemon/outbox.hpp"

#include <algorithm>

namespace pgwaked {

using pgwake::steady_time;

std::uint64_t outbox::push(kind what, const frame_ptr& frame, int by, steady_time now) {
  items_.push_back(item{frame, now, by, what});
  count(items_.back(), true);
  return front_ + items_.size() - 1;
}

void outbox::count(const item& it, bool in) {
  const auto size = it.frame->size();
  const auto move = [in](std::size_t& counter, std::size_t by) {
    counter = in ? counter + by : counter - by;
  };
  move(bytes_, size);
  if (it.what == kind::ephemeral) {
    move(ephemeral_bytes_, size);
    move(ephemeral_frames_, 1);
  } else if (it.what == kind::control || it.what == kind::status) {
    move(control_bytes_, size);
  }
}

outbox::item* outbox::untouched(std::uint64_t mark) {
  if (mark < front_ || (mark == front_ && front_written_ > 0)) return nullptr;
  return &items_[mark - front_];
}

void outbox::replace(item& it, kind what, const frame_ptr& frame, int by) {
  count(it, false);
  it.frame = frame;
  it.what = what;
  it.by = by;
  count(it, true);
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

void outbox::ephemeral(outbox_marks& marks, const frame_ptr& frame, steady_time now) {
  marks.ephemeral = push(kind::ephemeral, frame, 0, now);
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
    out.push_back(std::string_view(*it.frame).substr(skip));
    total += out.back().size();
    skip = 0;
  }
}

void outbox::written(std::size_t bytes, steady_time now, duration_histogram* waited) {
  front_written_ += bytes;
  while (!items_.empty() && front_written_ >= items_.front().frame->size()) {
    const auto& gone = items_.front();
    front_written_ -= gone.frame->size();
    count(gone, false);
    if (waited != nullptr && gone.what <= kind::gap) waited->add(now - gone.since);
    items_.pop_front();
    ++front_;
  }
}

}  // namespace pgwaked
