#pragma once

#include <optional>

#include "client/src/core/hub_life.hpp"
#include "common/backoff.hpp"
#include "common/time.hpp"

namespace pgwake::client {

// For how long a hub that is connected and ill is borne before an own connection takes over; and when an own connection is
// given up for a hub that finds none: a server that has no connection to spare gives it to the hub, which serves all.
class hub_grace {
 public:
  struct settings {
    millis unhealthy;  // and up to a quarter more, so that not all workers leave at one instant
    millis spread;     // own connections are given up within so long
    millis patience;   // and if that was of no use, had again after so long
  };

  explicit hub_grace(settings s) : settings_(s) {}

  void welcomed();
  void told(const hub_life& hub, jitter& random, steady_time now);
  void passed(steady_time now) { give_up_due_ = give_up_due_ && now < give_up_at_; }

  bool over(steady_time now) const { return now >= fall_at_; }
  steady_time until() const { return fall_at_; }  // of a hub that is ill

  bool hub_is_full() const { return full_; }
  // The own connection is left to the hub. Once, so that nobody is deaf for longer if that was of no use. An attempt
  // that has not got one yet competes with the hub and ends at once.
  bool gives_way(const hub_life& hub, bool own_live, steady_time now) const {
    return full_ && hub.full() && now < have_again_at_ && (!own_live || now >= give_up_at_);
  }
  std::optional<steady_time> give_up_at() const;

 private:
  void judge_full(bool full, jitter& random, steady_time now);

  settings settings_;
  bool ill_ = false;  // fall_at_ counts
  steady_time fall_at_{};
  bool full_ = false;  // the hub has said that it finds no connection
  bool give_up_due_ = false;
  steady_time give_up_at_{};
  steady_time have_again_at_{};
};

}  // namespace pgwake::client
