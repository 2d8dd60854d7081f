#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "client/src/core/types.hpp"

namespace pgwake::client {

// The exact hand-over between two streams that carry the same notifications in the same order (C6).
//
//   none     no hand-over
//   joining  the new side is told of the whole set; the old side serves
//   fencing  the fence is on its way through both streams. Of the old side what comes before the fence is
//            delivered, of the new side what comes before it is dropped; what comes behind it is held, on both
//
// Invariant: when both have passed, what was delivered and what is held of the new side together are each
// notification once and in order; and while the old side lives, so are what was delivered and what is
// held of it.
class handover {
 public:
  enum class phase { none, joining, fencing };
  enum class route { deliver, hold, drop };

  void begin(side to, steady_time until);
  void fence(std::uint64_t id, std::string payload);
  // The fence came by in that side's stream. True when it has in both.
  bool pass(side s);
  // The old side is gone, having passed: the new one still has to.
  void lose_old() { old_lost_ = true; }
  void end();

  route where(side s) const;
  void hold(side s, event e);
  // What was held of that side, in order.
  std::deque<event> take(side s);

  phase now_in() const { return phase_; }
  bool active() const { return phase_ != phase::none; }
  bool fencing() const { return phase_ == phase::fencing; }
  side from() const { return to_ == side::hub ? side::own : side::hub; }
  side to() const { return to_; }
  bool passed(side s) const { return s == to_ ? new_passed_ : old_passed_; }
  bool old_lost() const { return old_lost_; }
  std::uint64_t id() const { return id_; }
  const std::string& payload() const { return payload_; }
  steady_time until() const { return until_; }
  std::size_t held_bytes() const { return bytes_; }

 private:
  phase phase_ = phase::none;
  side to_ = side::none;
  steady_time until_{};
  std::uint64_t id_ = 0;
  std::string payload_;
  bool old_passed_ = false;
  bool new_passed_ = false;
  bool old_lost_ = false;
  std::deque<event> held_old_;
  std::deque<event> held_new_;
  std::size_t bytes_ = 0;
};

}  // namespace pgwake::client
