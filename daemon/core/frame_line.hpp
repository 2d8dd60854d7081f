#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>

#include "daemon/core/hub.hpp"

namespace pgwaked {

// Workers whose frames wait for a turn: users take turns, and each user's workers among themselves, so that
// neither many frames nor many connections of one user hold back another's. Pure. Each stands there at most
// once (the owner sees to it); who has left meanwhile is skipped by the owner.
class frame_line {
 public:
  void add(std::uint32_t user, worker_id id) {
    auto& line = lines_[user];
    if (line.empty()) users_.push_back(user);
    line.push_back(id);
  }

  std::optional<worker_id> next() {
    if (users_.empty()) return std::nullopt;
    const auto user = users_.front();
    users_.pop_front();
    const auto at = lines_.find(user);
    const auto id = at->second.front();
    at->second.pop_front();
    if (at->second.empty())
      lines_.erase(at);
    else
      users_.push_back(user);
    return id;
  }

  bool empty() const { return users_.empty(); }

 private:
  std::deque<std::uint32_t> users_;  // with workers in line
  std::unordered_map<std::uint32_t, std::deque<worker_id>> lines_;
};

}  // namespace pgwaked
