#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>

#include "client/src/core/types.hpp"

namespace pgwake::client {

// The application's queue (C10). Pure; the shell locks it.
//
// Invariants: events of one channel keep their order. At most one durable wake of a channel and one state
// wait at a time, and at most one gap of a channel with no ephemeral event of it behind. A durable wake
// merges into one that waits unless a gap of its channel was queued behind that; a gap absorbs a durable wake
// that waits, and a gap that waits with nothing ephemeral behind it takes the newer one's cause. Ephemeral
// events together stay under the cap, counted as they are resident: one that does not fit is discarded, and
// an overflow gap waits behind whatever ephemeral waits of its channel. Whoever asks for
// answers to subscribes bounds them. The rest is bounded by the number of channels; of places that were given
// up in the midst there are never more than of events that wait.
class event_queue {
 public:
  explicit event_queue(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  void push(event&& e);
  // False: nothing waits.
  bool pop(event& out);
  // What pop() would give; null: nothing waits.
  const event* front() const { return slots_.empty() ? nullptr : &slots_.front().what; }
  // What waits of this channel is dropped.
  void forget(const std::string& channel);

  bool empty() const { return live_ == 0; }
  std::size_t size() const { return live_; }
  std::size_t places() const { return slots_.size(); }  // those that were given up, too
  std::size_t bytes() const { return bytes_; }          // resident, of all that waits
  std::size_t ephemeral_bytes() const { return ephemeral_bytes_; }
  std::size_t answer_bytes() const { return answer_bytes_; }  // of the answers to subscribes
  // What it takes while it waits.
  static std::size_t cost(const event& e);
  std::uint64_t wakes() const { return wakes_; }
  std::uint64_t coalesced() const { return coalesced_; }
  std::uint64_t discarded() const { return discarded_; }
  std::uint64_t gaps() const { return gaps_; }

 private:
  using place = std::uint64_t;  // 0: nowhere
  struct marks {                // of one channel, while anything of it waits
    place durable = 0;
    place gap = 0;        // the last
    place ephemeral = 0;  // the last
    std::size_t waiting = 0;
    std::size_t cost = 0;
  };

  struct slot {
    event what;
    marks* of = nullptr;  // of a wake's channel
    std::size_t cost = 0;
    bool gone = false;
  };

  static std::size_t cost_of_marks(const std::string& channel);
  slot& at(place p) { return slots_[p - first_]; }
  place append(event&& e);
  void take(place p, event& out);
  void drop(place p);
  void compact();
  bool merge(const event& e);
  void overflow(const std::string& channel);

  std::size_t max_bytes_;
  std::deque<slot> slots_;
  place first_ = 1;  // of slots_.front()
  std::unordered_map<std::string, marks> channels_;
  place state_ = 0;
  std::size_t live_ = 0;
  std::size_t bytes_ = 0;
  std::size_t ephemeral_bytes_ = 0;
  std::size_t answer_bytes_ = 0;
  std::uint64_t wakes_ = 0;
  std::uint64_t coalesced_ = 0;
  std::uint64_t discarded_ = 0;
  std::uint64_t gaps_ = 0;
};

}  // namespace pgwake::client
