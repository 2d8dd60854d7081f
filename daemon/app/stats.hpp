#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/core/engine.hpp"

namespace pgwaked {

struct stats_view {
  stats_desk::view eyes;          // whose names and channels are shown
  std::vector<worker_id> askers;  // not listed
  std::chrono::steady_clock::time_point started;
  std::uint64_t refused = 0;  // workers not let in
};

// What `pgwaked status` shows, as one JSON object with `t` = "stats". Stays under the frame limit by leaving
// out channel lists, then workers; `truncated` then says so. docs/protocol.md describes the members.
// With many workers and channels that takes long: it is made in slices, each as things are then.
class stats_maker {
 public:
  stats_maker(const engine& e, stats_view view);
  ~stats_maker();

  // Another slice; true when it is finished.
  bool step(pgwake::steady_time now);
  std::string take();

 private:
  class writer;
  const engine* engine_;
  stats_view view_;
  std::size_t level_ = 0;
  std::unique_ptr<writer> writer_;
  std::string done_;
};

// All at once.
std::string stats_json(const engine& e, const stats_view& view, pgwake::steady_time now);

}  // namespace pgwaked
