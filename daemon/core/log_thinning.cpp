#include "daemon/core/log_thinning.hpp"

namespace pgwaked {

bool log_thinning::admit(std::string_view event, std::optional<std::uint32_t> uid, pgwake::steady_time now) {
  auto key = std::pair(std::string(event), uid);
  if (counts_.size() >= max_kept && !counts_.contains(key)) key.second.reset();
  const auto [it, fresh] = counts_.try_emplace(std::move(key), count{now});
  return ++it->second.lines <= burst;
}

std::vector<log_thinning::summary> log_thinning::take(pgwake::steady_time now, bool all) {
  std::vector<summary> out;
  for (auto it = counts_.begin(); it != counts_.end();) {
    const auto& [key, c] = *it;
    if (!all && now - c.since < period) {
      ++it;
      continue;
    }
    if (c.lines > burst) out.push_back({key.first, key.second, c.lines - burst});
    it = counts_.erase(it);
  }
  return out;
}

}  // namespace pgwaked
