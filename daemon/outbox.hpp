#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/time.hpp"
#include "daemon/metrics_histogram.hpp"

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

// A worker's outgoing queue: first in, first out (D7), durable wakes coalescing (D2), counted (D3, D8). Pure:
// it never writes, it shows what to write and is told what was written.
//
// Invariants: a frame of which one byte was written is never changed. A durable wake or gap that waits stands
// for every notification on its channel since, unless something that must stay ahead of the newer one (an ack
// of that channel, a gap, a fence) was queued behind it. Ephemeral frames are never dropped or reordered.
//
// Ephemeral frames that lie one behind the other in the same bytes are one run, queued, written and counted
// as one: it counts in full until its last byte is gone, and all of it as old as its first frame.
class outbox {
 public:
  enum class kind : std::uint8_t { ephemeral, durable, gap, control, status };  // the first three are wakes
  enum class verdict { queued, coalesced };

  verdict durable(outbox_marks& marks, wake_frames& frames, pgwake::steady_time now);
  verdict gap(outbox_marks& marks, const frame_ptr& frame, pgwake::steady_time now);
  // The frame is what `bytes` holds from `begin` on; more may be appended to it later.
  void ephemeral(outbox_marks& marks, const frame_ptr& bytes, pgwake::steady_time now, std::size_t begin = 0);
  void ack(outbox_marks& marks, const frame_ptr& frame, pgwake::steady_time now);
  void fence(const frame_ptr& frame, pgwake::steady_time now);
  void control(const frame_ptr& frame, pgwake::steady_time now);
  // At most one waits: a waiting one is replaced in place.
  verdict status(const frame_ptr& frame, pgwake::steady_time now);

  // The next bytes to write, in order, at most `pieces` views and about `bytes` bytes (at least one view).
  void gather(std::vector<std::string_view>& out, std::size_t pieces, std::size_t bytes) const;
  // `waited`, if any, is told how long each wake that is gone by this had been here.
  void written(std::size_t bytes, pgwake::steady_time now = {}, duration_histogram* waited = nullptr);

  bool empty() const { return items_.empty(); }
  std::size_t frames() const { return items_.size() + joined_; }
  std::size_t bytes() const { return bytes_; }  // unsent, of all kinds
  std::size_t ephemeral_bytes() const { return ephemeral_bytes_; }
  std::size_t ephemeral_frames() const { return ephemeral_frames_; }
  std::size_t control_bytes() const { return control_bytes_; }  // ack, nack, status, pong, fence, ...
  // When the frame at the front was queued. Only while not empty.
  pgwake::steady_time oldest() const { return items_.front().since; }

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
  std::size_t bytes_ = 0;
  std::size_t ephemeral_bytes_ = 0;
  std::size_t ephemeral_frames_ = 0;
  std::size_t control_bytes_ = 0;
};

}  // namespace pgwaked
