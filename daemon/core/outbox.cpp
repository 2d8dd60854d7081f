#include "daemon/core/outbox.hpp"

#include <algorithm>
#include <utility>

namespace pgwaked {

using pgwake::steady_time;

std::uint64_t outbox::push(kind what, const frame_ptr& frame, int by, steady_time now) {
  items_.push_back(item{frame, 0, frame->size(), now, 1, by, what});
  count_in(items_.back());
  return ++back_;
}

void outbox::count_in(const item& it) {
  const auto takes = it.size + overhead;
  memory_ += takes;
  if (it.what == kind::ephemeral) {
    ephemeral_memory_ += takes;
    ephemeral_frames_ += it.frames;
  } else if (it.what >= kind::control) {
    control_memory_ += takes;
    if (it.what == kind::fence) ++fences_;
  }
}

void outbox::count_out(const item& it) {
  const auto took = it.size + overhead;
  memory_ -= took;
  if (it.what == kind::ephemeral) {
    ephemeral_memory_ -= took;
    ephemeral_frames_ -= it.frames;
  } else if (it.what >= kind::control) {
    control_memory_ -= took;
    if (it.what == kind::fence) --fences_;
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
  if (begin > 0 && !items_.empty() && holds(back_) == holds(back_ + 1)) {
    auto& last = items_.back();
    if (last.bytes == bytes && last.begin + last.size == begin) {
      last.size += size;
      ++last.frames;
      ++joined_;
      memory_ += size;
      ephemeral_memory_ += size;
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
  last_fence_ = push(kind::fence, frame, 0, now);
}

void outbox::control(const frame_ptr& frame, steady_time now) { push(kind::control, frame, 0, now); }

outbox::verdict outbox::status(const frame_ptr& frame, bool healthy, steady_time now) {
  const auto what = healthy ? kind::status : kind::ill_status;
  kept_back_.reset();
  if (auto* waiting = untouched(last_status_)) {
    if (healthy && waiting->what == kind::ill_status) {
      kept_back_ = frame;
      kept_since_ = now;
    } else {
      replace(*waiting, what, frame, 0);
    }
    return verdict::coalesced;
  }
  last_status_ = push(what, frame, 0, now);
  return verdict::queued;
}

outbox::held_part& outbox::with_answers() {
  if (!answers_) answers_ = std::make_unique<held_part>();
  return *answers_;
}

void outbox::answer(const frame_ptr& frame, steady_time now) {
  auto& a = with_answers();
  a.waiting.push_back({frame, now, std::min(a.held_from, back_ + 1)});
  memory_ += frame->size() + overhead;
  control_memory_ += frame->size() + overhead;
}

void outbox::hold() {
  auto& a = with_answers();
  if (a.held_from == UINT64_MAX) a.held_from = back_ + 1;
}

void outbox::release() { with_answers().held_from = UINT64_MAX; }

bool outbox::sendable() const { return (!items_.empty() && !holds(front_)) || answer_first(); }

std::size_t outbox::answer_written(std::size_t bytes) {
  auto& first = answers_->waiting.front();
  const auto taken = std::min(bytes, first.bytes->size() - answers_->written);
  answers_->written += taken;
  if (answers_->written == first.bytes->size()) {
    memory_ -= first.bytes->size() + overhead;
    control_memory_ -= first.bytes->size() + overhead;
    answers_->written = 0;
    answers_->waiting.pop_front();
  }
  return taken;
}

void outbox::gather(std::vector<std::string_view>& out, std::size_t pieces, std::size_t bytes) const {
  std::size_t total = 0;
  const auto full = [&] { return out.size() >= pieces || total >= bytes; };
  const auto put = [&](std::string_view piece) {
    out.push_back(piece);
    total += piece.size();
  };
  std::size_t answer = 0;
  const auto put_answers = [&](std::uint64_t mark) {
    for (; answer < answers_waiting() && answers_->waiting[answer].before <= mark && !full(); ++answer)
      put(std::string_view(*answers_->waiting[answer].bytes).substr(answer == 0 ? answers_->written : 0));
  };
  std::size_t skip = front_written_;
  auto mark = front_;
  for (const auto& it : items_) {
    put_answers(mark);
    if (full() || holds(mark)) return;
    put(std::string_view(*it.bytes).substr(it.begin + skip, it.size - skip));
    skip = 0;
    ++mark;
  }
  put_answers(mark);
}

void outbox::written(std::size_t bytes, steady_time now, duration_histogram* waited) {
  while (bytes > 0) {
    if (answer_first()) {
      bytes -= answer_written(bytes);
      continue;
    }
    if (items_.empty()) break;
    const auto& gone = items_.front();
    const auto rest = gone.size - front_written_;
    if (bytes < rest) {
      front_written_ += bytes;
      break;
    }
    bytes -= rest;
    front_written_ = 0;
    count_out(gone);
    joined_ -= gone.frames - 1;
    if (waited != nullptr && gone.what <= kind::gap) waited->add(now - gone.since, gone.frames);
    items_.pop_front();
    ++front_;
  }
  if (kept_back_ && untouched(last_status_) == nullptr)
    last_status_ = push(kind::status, std::exchange(kept_back_, nullptr), 0, kept_since_);
}

}  // namespace pgwaked
