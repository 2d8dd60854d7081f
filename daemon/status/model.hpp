#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pgwaked {

// A hub's `stats` object as plain values, in the words of its members (docs/protocol.md). Numbers that a hub
// of another version does not send are 0.
struct hub_status {
  struct upstream_state {
    std::string state;  // stopped, waiting, connecting, checking, live
    std::string server, database, system_id;
    std::optional<std::string> user;  // whom it logged in as
    std::int64_t backend_pid = 0;
    std::int64_t server_version = 0;  // 150018
    std::optional<double> since_s;    // set while live
    std::uint64_t reconnects = 0, attempts = 0;
    bool pooler = false;
    std::optional<double> queue_usage;  // 0 to 1
    std::uint64_t channels_listened = 0;
  };
  struct worker {
    std::uint64_t id = 0;
    std::int64_t pid = 0;
    std::uint32_t uid = 0;
    std::string name;  // empty: none, or not ours to see
    std::string dialect;
    std::uint64_t channel_count = 0;
    std::uint64_t outbox_bytes = 0, outbox_frames = 0, delivered = 0, coalesced = 0;
    std::optional<std::uint64_t> oldest_ms;
  };
  struct channel {
    std::string name;
    std::uint64_t workers = 0;
    bool active = false;
  };
  struct totals_of_run {
    std::uint64_t workers = 0, workers_ever = 0, workers_refused = 0, channels = 0, notifications = 0,
                  unrouted = 0, delivered = 0, coalesced = 0, gaps = 0, acks = 0, nacks = 0, fences = 0,
                  evicted = 0, protocol_errors = 0, outbox_bytes = 0;
  };

  std::string version, hub;
  std::int64_t pid = 0;
  double uptime_s = 0;
  bool healthy = false, draining = false;
  bool full = false;           // the server has no connection to spare for the hub
  std::string reason, detail;  // a word, and the server's own
  upstream_state upstream;
  std::vector<worker> workers;
  std::vector<channel> channels;
  totals_of_run totals;
  std::uint64_t max_workers = 0, max_channels = 0;  // the hub's limits
  bool truncated = false;                           // not every worker or channel is listed
};

// Nothing if it is not a JSON object.
std::optional<hub_status> parse_status(std::string_view json);

// Who needs a look first: most bytes unsent, then most frames, then id.
void slowest_first(std::vector<hub_status::worker>& workers);

// `PostgreSQL 15.18`, or nothing for 0.
std::string server_version_name(std::int64_t number);

}  // namespace pgwaked
