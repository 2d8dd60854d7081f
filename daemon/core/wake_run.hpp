#pragma once

#include <array>
#include <memory>
#include <string>

#include "daemon/core/dialect.hpp"
#include "daemon/core/outbox.hpp"

namespace pgwaked {

// Where the frames of ephemeral wakes are encoded: once per dialect (D5), those of one channel that come one
// after another in one turn into the same bytes, so that each outbox queues them as one run. Pure.
//
// Bytes hold frames of one channel alone, all of the same turn: a worker that keeps a part of them keeps
// little that is not its own. What they hold never changes; they only grow.
class wake_run {
 public:
  struct place {
    const frame_ptr& bytes;
    std::size_t begin;  // the frame is the rest of `bytes`
  };

  // The next wake. `channel` tells channels apart and is not looked into; what `wake` views must live until
  // the last in() for it.
  void next(const void* channel, const pgwake::wake_view& wake);
  // Its frame; encoded when first asked for.
  place in(std::size_t dialect_index, const dialect& d) {
    auto& s = slots_[dialect_index];
    if (s.wake != number_) encode(s, d);
    return {s.bytes, s.begin};
  }
  // The turn is over, or the channel: nothing is appended to these bytes any more.
  void end() { channel_ = nullptr; }

 private:
  struct slot {
    std::shared_ptr<std::string> growing;
    frame_ptr bytes;  // the same, as outboxes hold it
    std::size_t begin = 0;
    std::uint64_t wake = 0;  // whose frame begins there
  };

  void encode(slot& s, const dialect& d);

  std::array<slot, 4> slots_;
  pgwake::wake_view wake_;
  std::uint64_t number_ = 0;
  std::uint64_t run_begin_ = 0;  // the first wake whose bytes may still grow
  const void* channel_ = nullptr;
};

}  // namespace pgwaked
