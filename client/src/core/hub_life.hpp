#pragma once

#include <optional>
#include <string>
#include <utility>

#include "client/src/core/types.hpp"

namespace pgwake::client {

// The life of the link to the hub, without what flows over it.
//
//   off         never, or never again
//   waiting     until the next attempt is due
//   connecting  an attempt is under way
//   greeting    connected; `hello` is sent, `welcome` has not come
//   up          welcomed
class hub_life {
 public:
  enum class state { off, waiting, connecting, greeting, up };

  explicit hub_life(failover_settings s) : settings_(std::move(s)) {}

  void begin(steady_time now);
  void connected() { state_ = state::greeting; }
  void welcomed(const welcome& w, double random, steady_time now);
  void told(const status& s, steady_time now);
  void heard(steady_time now) { heard_ = now; }
  // The link is gone. `slow`: trying again soon would be of no use.
  void lost(std::string reason, bool slow, double random, steady_time now);
  void lasts() { lasting_ = reason_; }
  void retire();
  void hold_off(steady_time until);  // no attempt before

  // A sub was sent; its answer came.
  void asked(steady_time now);
  void answered(steady_time now);

  bool due(steady_time now) const { return state_ == state::waiting && now >= retry_at_; }
  // What has not come in time, if anything. Judged only after a read pass that found nothing.
  const char* overdue(steady_time now) const;
  std::optional<steady_time> deadline() const;

  state now_in() const { return state_; }
  bool up() const { return state_ == state::up; }
  bool open() const { return state_ == state::greeting || state_ == state::up; }
  bool told() const { return told_; }  // health is known
  bool healthy() const { return told_ && healthy_; }
  bool unhealthy() const { return up() && told_ && !healthy_; }
  bool draining() const { return up() && draining_; }
  bool full() const { return unhealthy() && full_; }     // for want of a connection
  std::uint32_t slots() const { return slots_; }         // of the server, as last told; 0: never
  bool failed() const { return failed_; }                // since it was last up, or ever
  steady_time began() const { return began_; }           // the present attempt
  const std::string& reason() const { return reason_; }  // why not up, or not healthy
  // Why this hub is not for this process until somebody mends that; empty: it may be back at any time.
  const std::string& lasting() const { return lasting_; }
  const pgwake::welcome& welcome() const { return welcome_; }
  std::uint64_t connects() const { return connects_; }

 private:
  failover_settings settings_;
  state state_ = state::off;
  pgwake::welcome welcome_;
  std::string reason_ = "connecting";
  std::string lasting_;
  bool told_ = false;
  bool healthy_ = false;
  bool draining_ = false;
  bool full_ = false;
  std::uint32_t slots_ = 0;
  bool failed_ = false;
  unsigned failures_ = 0;
  std::uint64_t connects_ = 0;
  millis silence_{0};  // this long without a frame means lost
  steady_time began_{};
  steady_time up_since_{};
  steady_time retry_at_{};
  steady_time heard_{};
  steady_time healthy_since_{};
  steady_time progress_{};  // of answers
  std::size_t unanswered_ = 0;
};

}  // namespace pgwake::client
