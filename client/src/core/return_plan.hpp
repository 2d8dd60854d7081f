#pragma once

#include <optional>

#include "common/time.hpp"

namespace pgwake::client {

// When a worker that is served by its own connection goes back to a hub that is well: soon, but not all workers of a host
// at once, and later each time the hub did not last.
class return_plan {
 public:
  struct settings {
    millis delay;
    millis most;
    millis long_stay;  // on the hub: the next return is not put off for it
  };

  explicit return_plan(settings s) : settings_(s) {}

  // `random`: from 0 to 1.
  void plan(double random, steady_time now);
  void cancel() { at_.reset(); }
  // It was due, and that hub is not the right one.
  void put_off(steady_time now) { at_ = now + settings_.most; }
  // It was tried, and the own connection goes on serving.
  void failed(double random, steady_time now);

  // The hub serves from here on; it serves no longer.
  void arrived(steady_time now) { since_ = now; }
  void left(steady_time now);

  bool planned() const { return at_.has_value(); }
  bool due(steady_time now) const { return at_ && now >= *at_; }
  std::optional<steady_time> deadline() const { return at_; }

 private:
  settings settings_;
  std::optional<steady_time> at_;
  steady_time since_{};
  unsigned short_stays_ = 0;  // in a row
};

}  // namespace pgwake::client
