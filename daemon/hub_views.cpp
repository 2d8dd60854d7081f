#include <algorithm>

#include "daemon/hub_parts.hpp"

// What status and metrics show.
namespace pgwaked {

std::vector<hub::worker_view> hub::workers() const {
  std::vector<worker_view> out;
  out.reserve(workers_.size());
  for (const auto& [id, w] : workers_) {
    worker_view v{};
    v.id = id;
    v.dialect = w->dialect;
    v.bytes = w->out.bytes();
    v.frames = w->out.frames();
    v.delivered = w->delivered;
    v.coalesced = w->coalesced;
    if (!w->out.empty()) v.oldest = w->out.oldest();
    for (const auto& [c, index] : w->held) v.channels.emplace_back(c->name);
    std::sort(v.channels.begin(), v.channels.end());
    v.holds_subscriptions = !w->held.empty();
    out.push_back(std::move(v));
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return out;
}

hub::crowd hub::overview() const {
  crowd all;
  for (const auto& [id, w] : workers_) {
    ++all.by_dialect[w->dialect];
    all.subscriptions += w->held.size();
    if (w->out.empty()) continue;
    ++all.behind;
    all.outbox_frames += w->out.frames();
    all.fullest_bytes = std::max(all.fullest_bytes, w->out.ephemeral_bytes());
    all.fullest_frames = std::max(all.fullest_frames, w->out.ephemeral_frames());
    all.oldest = all.oldest ? std::min(*all.oldest, w->out.oldest()) : w->out.oldest();
  }
  return all;
}

std::vector<hub::channel_view> hub::channels() const {
  std::vector<channel_view> out;
  out.reserve(channels_.size());
  for (const auto& [name, c] : channels_) out.push_back({name, c->held.size(), c->active});
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return out;
}

}  // namespace pgwaked
