#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "daemon/core/hub.hpp"

namespace pgwaked {

// Who asked for `stats`. An answer is dear where there are many channels, so there is one per view and
// interval, made once for all who wait for it, and one is made at a time. Pure.
class stats_desk {
 public:
  // Whose eyes: root and the hub's own user see everything, others what is their user's.
  struct view {
    bool privileged = false;
    std::uint32_t uid = 0;  // 0 if privileged
    auto operator<=>(const view&) const = default;
  };
  struct order {
    view eyes;
    std::vector<worker_id> askers;
  };

  void ask(view eyes, worker_id id);
  // The next answer to make, if one is due; done() when it is out.
  std::optional<order> take(pgwake::steady_time now);
  void done(pgwake::steady_time now);
  std::optional<pgwake::steady_time> deadline() const;

 private:
  struct waiting {
    std::set<worker_id> askers;
    pgwake::steady_time not_before{};
  };

  std::map<view, waiting> views_;
  std::optional<view> making_;
  pgwake::steady_time begun_{};
};

}  // namespace pgwaked
