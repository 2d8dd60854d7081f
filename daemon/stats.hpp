#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "daemon/engine.hpp"

namespace pgwaked {

struct stats_view {
  bool privileged = false;  // root or the hub's own user: sees names and channels of everybody's workers
  std::uint32_t uid = 0;    // the asker's; sees those of its own
  worker_id asker = 0;      // not listed
  std::chrono::steady_clock::time_point started;
  std::uint64_t refused = 0;  // workers not let in
};

// What `pgwaked status` shows, as one JSON object with `t` = "stats". Stays under the frame limit by leaving
// out channel lists, then workers; `truncated` then says so. docs/protocol.md describes the members.
std::string stats_json(const engine& e, const stats_view& view, pgwake::steady_time now);

}  // namespace pgwaked
