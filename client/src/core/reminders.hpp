#pragma once

#include <optional>

#include "common/time.hpp"

namespace pgwake::client {

// When the application is asked to look for itself: every `poll_interval` while that replaces being served, else every
// `safety_poll`, if there is one.
class reminders {
 public:
  reminders(millis poll_interval, millis safety_poll) : poll_(poll_interval), safety_(safety_poll) {}

  // Whether now is such a time. `unserved`: nobody serves, and the policy is to poll then.
  bool due(bool unserved, steady_time now);
  std::optional<steady_time> deadline() const { return at_; }

 private:
  millis poll_;
  millis safety_;
  bool unserved_ = false;
  std::optional<steady_time> at_;  // the next one
};

}  // namespace pgwake::client
