#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "common/upstream.hpp"

namespace pgwaked {

// Counts attempts to connect that led to no session that serves, by the upstream's word for the reason. Pure;
// to be shown the upstream after each event, a few comparisons.
class attempt_tally {
 public:
  void look(const pgwake::upstream& up) {
    if (up.live_since()) served_ = up.attempts();
    if (up.now_in() != pgwake::upstream::state::waiting || judged_ == up.attempts()) return;
    judged_ = up.attempts();
    if (served_ != judged_) ++failed_[up.reason()];
  }
  // The reasons are a few fixed words.
  const std::map<std::string, std::uint64_t>& failed() const { return failed_; }

 private:
  std::uint64_t served_ = 0;  // the number of the last attempt that led to a session that serves
  std::uint64_t judged_ = 0;  // and of the last one whose end was seen
  std::map<std::string, std::uint64_t> failed_;
};

}  // namespace pgwaked
