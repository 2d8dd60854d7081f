#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/time.hpp"
#include "daemon/core/duration_histogram.hpp"

namespace pgwaked {

// Encoded bytes of one or more frames, shared by every outbox that holds them.
using frame_ptr = std::shared_ptr<const std::string>;

// Where the frames of one (worker, channel) last went in the worker's outbox; 0: never.
struct outbox_marks {
  std::uint64_t durable = 0;
  std::uint64_t gap = 0;
  std::uint64_t ephemeral = 0;
  std::uint64_t ack = 0;
};

// One notification (or gap) as frames, encoded only if somebody needs them.
class wake_frames {
 public:
  virtual ~wake_frames() = default;
  virtual const frame_ptr& as_is() = 0;       // with its `by`
  virtual const frame_ptr& without_by() = 0;  // for merging two that differ in `by`
  int by = 0;
};

// A worker's outgoing queue: first in, first out (D7), durable wakes coalescing (D2), counted (D3, D8) as
// what it takes in memory. Pure: it never writes, it shows what to write and is told what was written.
//
// Invariants: a frame of which one byte was written is never changed. A durable wake or gap that waits stands
// for every notification on its channel since, unless something that must stay ahead of the newer one (an ack
// of that channel, a gap, a fence) was queued behind it. Ephemeral frames are never dropped or reordered. At
// most one status waits. A reader learns of each bout of ill health: while an unhealthy status waits, a
// healthy one is kept back, and queued when that one is gone.
//
// Ephemeral frames that lie one behind the other in the same bytes are one run, queued, written and counted
// as one: it counts in full until its last byte is gone, and all of it as old as its first frame.
//
// A client of the front door is sent wakes at certain times only. While held, frames that are queued wait,
// and answers go before them; what was queued before is sent.
class outbox {
 public:
  // The first three are wakes.
  enum class kind : std::uint8_t { ephemeral, durable, gap, control, status, ill_status, fence };
  enum class verdict { queued, coalesced };

  verdict durable(outbox_marks& marks, wake_frames& frames, pgwake::steady_time now);
  verdict gap(outbox_marks& marks, const frame_ptr& frame, pgwake::steady_time now);
  // The frame is what `bytes` holds from `begin` on; more may be appended to it later.
  void ephemeral(outbox_marks& marks, const frame_ptr& bytes, pgwake::steady_time now, std::size_t begin = 0);
  void ack(outbox_marks& marks, const frame_ptr& frame, pgwake::steady_time now);
  void fence(const frame_ptr& frame, pgwake::steady_time now);
  void control(const frame_ptr& frame, pgwake::steady_time now);
  // A waiting one is replaced in place, but an unhealthy one not by a healthy one: that follows later.
  verdict status(const frame_ptr& frame, bool healthy, pgwake::steady_time now);

  // What a dialect says by itself: behind all that was queued, in front of what is held.
  void answer(const frame_ptr& frame, pgwake::steady_time now);
  void hold();
  void release();
  // Something may be written now.
  bool sendable() const;

  // The next bytes to write, in order, at most `pieces` views and about `bytes` bytes (at least one view).
  void gather(std::vector<std::string_view>& out, std::size_t pieces, std::size_t bytes) const;
  // `waited`, if any, is told how long each wake that is gone by this had been here.
  void written(std::size_t bytes, pgwake::steady_time now = {}, duration_histogram* waited = nullptr);

  bool empty() const { return items_.empty() && answers_waiting() == 0; }
  std::size_t frames() const { return items_.size() + joined_ + answers_waiting(); }
  // To be written, of all kinds.
  std::size_t bytes() const { return memory_ - (items_.size() + answers_waiting()) * overhead; }
  // What a frame of its own takes beside its bytes: the place in the queue, the string, what malloc adds.
  static constexpr std::size_t overhead = 160;
  std::size_t memory() const { return memory_; }  // of all kinds
  std::size_t ephemeral_memory() const { return ephemeral_memory_; }
  std::size_t ephemeral_frames() const { return ephemeral_frames_; }
  std::size_t control_memory() const { return control_memory_; }  // ack, nack, status, pong, fence, ...
  std::size_t fences() const { return fences_; }
  // When the frame at the front was queued. Only while not empty.
  pgwake::steady_time oldest() const {
    return items_.empty() ? answers_->waiting.front().since : items_.front().since;
  }

 private:
  struct item {
    frame_ptr bytes;
    std::size_t begin;
    std::size_t size;
    pgwake::steady_time since;
    std::uint32_t frames = 1;
    int by = 0;
    kind what = kind::control;
  };

  // For those alone who hold: answers, each with the mark of the frame that it goes before.
  struct held_part {
    struct one {
      frame_ptr bytes;
      pgwake::steady_time since;
      std::uint64_t before;
    };
    std::deque<one> waiting;
    std::size_t written = 0;  // bytes of the first that are gone
    std::uint64_t held_from = UINT64_MAX;
  };

  std::size_t answers_waiting() const { return answers_ ? answers_->waiting.size() : 0; }
  bool answer_first() const { return answers_waiting() > 0 && answers_->waiting.front().before <= front_; }
  std::size_t answer_written(std::size_t bytes);
  bool holds(std::uint64_t mark) const { return answers_ && mark >= answers_->held_from; }
  held_part& with_answers();
  std::uint64_t push(kind what, const frame_ptr& frame, int by, pgwake::steady_time now);
  item* untouched(std::uint64_t mark);
  void replace(item& it, kind what, const frame_ptr& frame, int by);
  void count_in(const item& it);
  void count_out(const item& it);

  std::deque<item> items_;
  std::size_t joined_ = 0;         // frames in runs, beyond the first of each
  std::uint64_t front_ = 1;        // the mark of items_.front()
  std::uint64_t back_ = 0;         // the mark of items_.back(), or of the last item there was
  std::size_t front_written_ = 0;  // bytes of it that are gone
  std::uint64_t last_fence_ = 0;
  std::uint64_t last_status_ = 0;
  std::unique_ptr<held_part> answers_;
  frame_ptr kept_back_;  // a healthy status, while an unhealthy one waits
  pgwake::steady_time kept_since_{};
  std::size_t memory_ = 0;
  std::size_t ephemeral_memory_ = 0;
  std::size_t ephemeral_frames_ = 0;
  std::size_t control_memory_ = 0;
  std::size_t fences_ = 0;
};

}  // namespace pgwaked
