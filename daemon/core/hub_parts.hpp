#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/core/hub.hpp"

// What the hub is made of; for its own sources alone.
namespace pgwaked {

using pgwake::steady_time;
using pgwake::wake_view;

struct hub::subscription {
  worker* who;
  outbox_marks marks;
  std::uint32_t pending = 0;  // subs without their ack
  bool subscribed = true;     // false: unsubscribed, only the acks are owed
  bool acked = false;
  bool owes_gap = false;
  steady_time asked{};  // the oldest pending sub
};

struct hub::channel {
  std::string name;
  bool active = false;
  std::optional<steady_time> due;  // when the patience of one that waits here is over
  std::vector<subscription> held;
};

struct hub::user {
  owner who;
  std::size_t workers = 0;
  std::size_t subscriptions = 0;
  std::unordered_map<const channel*, std::uint32_t> channels;  // and how many of its workers hold each
};

struct hub::worker {
  // Over a cap, and given time.
  struct slowness {
    steady_time since;
    steady_time look;
    bool took = false;  // bytes, since the last look
  };

  worker_id id;
  std::size_t dialect;
  user* of;
  bool counts = true;
  std::optional<slowness> slow{};
  bool greeted = false;
  bool touched = false;
  bool doomed = false;
  bool finished = false;     // its last frame is queued
  std::size_t repeated = 0;  // pending subs beyond the first of each channel
  std::string token;
  outbox out;
  std::size_t kept = 0;                              // by its dialect
  std::unordered_map<channel*, std::uint32_t> held;  // and where in channel::held
  std::uint64_t delivered = 0;
  std::uint64_t coalesced = 0;

  std::size_t memory() const { return out.memory() + kept; }
};

// One notification in every dialect it turns out to be needed in, each encoded once (D5).
class hub::routed final : public wake_frames {
 public:
  routed(const hub& h, const wake_view& wake) : hub_(h), wake_(wake) { by = wake.by; }

  wake_frames& in(std::size_t dialect) {
    dialect_ = dialect;
    return *this;
  }
  const frame_ptr& as_is() override { return made(with_[dialect_], wake_); }
  const frame_ptr& without_by() override {
    auto plain = wake_;
    plain.by = 0;
    return made(without_[dialect_], plain);
  }

 private:
  const frame_ptr& made(frame_ptr& slot, const wake_view& wake) {
    if (!slot) {
      std::string bytes;
      bytes.reserve(64 + wake.q.size() + (wake.payload ? wake.payload->size() : 0));
      hub_.dialects_[dialect_]->encode(bytes, wake);
      slot = std::make_shared<const std::string>(std::move(bytes));
    }
    return slot;
  }

  const hub& hub_;
  wake_view wake_;
  std::size_t dialect_ = 0;
  std::array<frame_ptr, 4> with_;
  std::array<frame_ptr, 4> without_;
};

}  // namespace pgwaked
