#pragma once

#include <string>

#include "client/src/core/types.hpp"

namespace pgwake::client {

// Keeps a side that takes over without a fence from repeating what the other one has delivered: its stream is dropped up to
// a mark that it carries itself.
//
//   own  the session's own NOTIFY of the mark, come back. Needed if the hub delivered while this session was there.
//   hub  the answer to the second of two subs of channels that nobody has: the hub sends the second LISTEN only when it
//        has passed on all that came with the first. Needed if the own connection delivered last.
class stream_cut {
 public:
  // A notification of that side was handed out.
  void delivered(side s) {
    last_ = s;
    if (s == side::hub) overlap_ = true;
  }
  // A session of the own connection begins, or is gone.
  void own_session_changed() { overlap_ = false; }
  // All that the other side has delivered was before a mark, a fence or a cut, that this one has passed as well.
  void passed(side s) {
    last_ = s;
    overlap_ = false;
  }
  bool needed(side s) const { return s == side::own ? overlap_ : last_ == side::own; }

  void begin(side s, std::string mark);
  // The hub's first mark came back: the next one is the last.
  void go_on(std::string mark);
  void end();
  void give_up() { on_ = side::none; }
  void give_up(side s) {
    if (on_ == s) on_ = side::none;
  }

  bool active() const { return on_ != side::none; }
  bool drops(side s) const { return on_ == s && s != side::none; }
  bool at_mark(side s, std::string_view mark) const { return drops(s) && mark == mark_; }
  bool at_last_mark() const { return on_ == side::own || second_; }
  const std::string& mark() const { return mark_; }

 private:
  side last_ = side::none;  // whose notifications the application has seen last
  bool overlap_ = false;    // the hub has delivered since the present own session began
  side on_ = side::none;    // whose stream is dropped
  std::string mark_;        // own: the payload to come back; hub: the channel to be answered
  bool second_ = false;
};

}  // namespace pgwake::client
