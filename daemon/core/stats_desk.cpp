#include "daemon/core/stats_desk.hpp"

#include <algorithm>
#include <utility>

namespace pgwaked {

using pgwake::millis;
using pgwake::steady_time;

namespace {
constexpr millis interval{250};
constexpr int rest = 4;  // times what the answer took to make, if that is more
}  // namespace

void stats_desk::ask(view eyes, worker_id id) { views_[eyes].askers.insert(id); }

std::optional<stats_desk::order> stats_desk::take(steady_time now) {
  if (making_) return std::nullopt;
  std::erase_if(views_,
                [now](const auto& v) { return v.second.askers.empty() && v.second.not_before <= now; });
  auto best = views_.end();
  for (auto it = views_.begin(); it != views_.end(); ++it)
    if (!it->second.askers.empty() && it->second.not_before <= now &&
        (best == views_.end() || it->second.not_before < best->second.not_before))
      best = it;
  if (best == views_.end()) return std::nullopt;
  making_ = best->first;
  begun_ = now;
  const auto askers = std::exchange(best->second.askers, {});
  return order{best->first, {askers.begin(), askers.end()}};
}

void stats_desk::done(steady_time now) {
  if (!making_) return;
  views_[*making_].not_before = now + std::max<steady_time::duration>(interval, rest * (now - begun_));
  making_.reset();
}

std::optional<steady_time> stats_desk::deadline() const {
  std::optional<steady_time> at;
  if (making_) return at;
  for (const auto& [eyes, w] : views_)
    if (!w.askers.empty()) at = at ? std::min(*at, w.not_before) : w.not_before;
  return at;
}

}  // namespace pgwaked
