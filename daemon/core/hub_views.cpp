#include <algorithm>

#include "daemon/core/hub_parts.hpp"

// What status and metrics show.
namespace pgwaked {

std::optional<hub::worker_view> hub::view(worker_id id, std::size_t most_channels) const {
  const auto* w = find(id);
  if (w == nullptr) return std::nullopt;
  worker_view v{};
  v.id = id;
  v.dialect = w->dialect;
  v.bytes = w->memory();
  v.frames = w->out.frames();
  v.delivered = w->delivered;
  v.coalesced = w->coalesced;
  if (!w->out.empty()) v.oldest = w->out.oldest();
  v.channel_count = w->held.size();
  v.holds_subscriptions = !w->held.empty();
  for (const auto& [c, index] : w->held) {
    if (v.channels.size() >= most_channels) break;
    v.channels.emplace_back(c->name);
  }
  return v;
}

std::vector<hub::worker_view> hub::workers() const {
  std::vector<worker_view> out;
  out.reserve(workers_.size());
  for (const auto& [id, w] : workers_) {
    out.push_back(*view(id, SIZE_MAX));
    std::sort(out.back().channels.begin(), out.back().channels.end());
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return out;
}

hub::crowd hub::overview() const {
  crowd all;
  for (const auto& [id, w] : workers_) {
    if (w->counts) ++all.by_dialect[w->dialect];
    all.subscriptions += w->held.size();
    if (w->out.empty()) continue;
    ++all.behind;
    all.outbox_frames += w->out.frames();
    all.fullest_bytes = std::max(all.fullest_bytes, w->out.ephemeral_memory());
    all.fullest_frames = std::max(all.fullest_frames, w->out.ephemeral_frames());
    all.oldest = all.oldest ? std::min(*all.oldest, w->out.oldest()) : w->out.oldest();
  }
  return all;
}

std::optional<std::size_t> hub::channels(std::size_t place, std::size_t most,
                                         std::vector<channel_view>& out) const {
  for (; place < channels_.bucket_count(); ++place) {
    if (out.size() >= most) return place;
    for (auto it = channels_.begin(place); it != channels_.end(place); ++it)
      out.push_back({it->first, it->second->held.size(), it->second->active});
  }
  return std::nullopt;
}

std::vector<hub::channel_view> hub::channels() const {
  std::vector<channel_view> out;
  out.reserve(channels_.size());
  for (const auto& [name, c] : channels_) out.push_back({name, c->held.size(), c->active});
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return out;
}

}  // namespace pgwaked
