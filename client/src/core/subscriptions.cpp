#include "client/src/core/subscriptions.hpp"

#include <algorithm>

namespace pgwake::client {

subscription& subscriptions::record(const std::string& channel) { return all_[channel]; }

subscription* subscriptions::find(const std::string& channel) {
  const auto it = all_.find(channel);
  return it == all_.end() ? nullptr : &it->second;
}

bool subscriptions::wants(const std::string& channel) const {
  const auto it = all_.find(channel);
  return it != all_.end() && it->second.wanted;
}

void subscriptions::want(subscription& s) {
  if (!s.wanted) ++wanted_;
  s.wanted = true;
}

void subscriptions::unwant(subscription& s) {
  if (s.wanted) --wanted_;
  s.wanted = false;
  set_joining(s, false);
  s.owed = gap_cause::none;
  set_served(s, false);
  set_acked(s, false);
}

void subscriptions::set_acked(subscription& s, bool acked) {
  if (s.acked != acked) acked ? ++acked_ : --acked_;
  s.acked = acked;
}

void subscriptions::set_served(subscription& s, bool served) {
  if (s.served != served) served ? ++served_ : --served_;
  s.served = served;
}

void subscriptions::set_joining(subscription& s, bool joining) {
  if (s.joining != joining) joining ? ++joining_ : --joining_;
  s.joining = joining;
}

void subscriptions::end_joining() {
  for (auto& [channel, s] : all_) s.joining = false;
  joining_ = 0;
}

void subscriptions::defer(const std::string& channel, subscription& s) {
  if (!std::exchange(s.deferred, true)) deferred_.push_back(channel);
}

std::vector<std::string> subscriptions::take_deferred() {
  auto channels = std::exchange(deferred_, {});
  for (const auto& channel : channels) all_.at(channel).deferred = false;
  return channels;
}

void subscriptions::tidy(const std::string& channel) {
  const auto it = all_.find(channel);
  if (it == all_.end()) return;
  const auto& s = it->second;
  if (!s.wanted && !s.at_hub && !s.at_own && s.unanswered == 0 && !s.deferred) all_.erase(it);
}

void subscriptions::ask(const std::string& channel, subscription& s, std::uint64_t id,
                        std::optional<steady_time> until, steady_time now) {
  s.requests.push_back(id);
  requests_[id] = {channel, now, until};
  if (until) deadlines_.emplace(*until, id);
}

std::vector<std::uint64_t> subscriptions::take_requests(subscription& s) {
  auto ids = std::exchange(s.requests, {});
  for (const auto id : ids) {
    const auto it = requests_.find(id);
    if (it->second.until) deadlines_.erase({*it->second.until, id});
    requests_.erase(it);
  }
  return ids;
}

std::optional<subscriptions::expired> subscriptions::next_expired(steady_time now) {
  if (deadlines_.empty() || deadlines_.begin()->first > now) return std::nullopt;
  const auto id = deadlines_.begin()->second;
  deadlines_.erase(deadlines_.begin());
  const auto it = requests_.find(id);
  expired out{id, std::move(it->second.channel), it->second.asked};
  requests_.erase(it);
  auto& ids = all_.at(out.channel).requests;
  ids.erase(std::find(ids.begin(), ids.end(), id));
  return out;
}

std::optional<steady_time> subscriptions::deadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.begin()->first;
}

}  // namespace pgwake::client
