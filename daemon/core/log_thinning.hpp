#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/time.hpp"

namespace pgwaked {

// How many lines of the log others can cause: of one event and one user at most `burst` in each `period`; the
// rest are counted, and the count is said when the period is over. Pure.
class log_thinning {
 public:
  static constexpr std::uint64_t burst = 20;
  static constexpr pgwake::millis period{10'000};
  // More users than this at one time (user namespaces make them cheaply) share one count.
  static constexpr std::size_t max_kept = 1'024;

  struct summary {
    std::string event;
    std::optional<std::uint32_t> uid;  // nothing: nobody's, or several users'
    std::uint64_t lines;               // that were not written
  };

  // False: the line is only counted. `uid`: who caused it, if that is known.
  bool admit(std::string_view event, std::optional<std::uint32_t> uid, pgwake::steady_time now);
  // What was left out in periods that are over; with `all`, in those under way, too.
  std::vector<summary> take(pgwake::steady_time now, bool all = false);

 private:
  struct count {
    pgwake::steady_time since;
    std::uint64_t lines = 0;
  };
  std::map<std::pair<std::string, std::optional<std::uint32_t>>, count, std::less<>> counts_;
};

}  // namespace pgwaked
