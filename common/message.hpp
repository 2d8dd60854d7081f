#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "common/code.hpp"

namespace pgwake {

inline constexpr int protocol_version = 1;
inline constexpr std::size_t max_name_bytes = 1024;  // of `q`; more is a protocol error

// A `q` as the worker sent it: its text, or the raw JSON of a value that is no string (to be echoed
// in a nack).
struct wire_name {
  std::string text;
  std::string not_a_string;  // empty when `text` counts
  bool is_string() const { return not_a_string.empty(); }
};

// From a worker.
struct hello {
  int v = 0;
  std::optional<std::string> name;
  std::optional<std::string> db;
  bool operates = false;  // for `stats` and `control` alone: no worker
};
struct sub {
  wire_name q;
};
struct unsub {
  wire_name q;
};
struct ping {
  std::uint64_t id = 0;
};
struct stats_request {};
// An operator's wish, for root and the hub's own user: `evict` (arg: a worker's id), `log-level` (arg: the
// level), `reconnect`, `drain`.
struct control_request {
  std::string what;
  std::string arg;
};
struct unknown_message {
  std::string t;
};
using from_worker = std::variant<hello, sub, unsub, ping, stats_request, control_request, unknown_message>;

// From the hub.
enum class gap_cause { none, reconnect, hub_lost, overflow };
std::string_view to_string(gap_cause cause) noexcept;

struct welcome {
  int v = protocol_version;
  std::string hub;  // UUID of this run of the hub
  std::string version;
  std::optional<std::string> db;
  std::optional<std::string> system_id;
  std::uint32_t heartbeat_ms = 5000;
  std::string fence;  // token that addresses fences to this worker
};
struct ack {
  std::string q;
};
struct nack {
  wire_name q;
  code why = code::invalid_channel;
  std::string reason;
  std::string sqlstate;  // empty: PostgreSQL gave none
};
struct wake {
  std::string q;
  std::optional<std::string> payload;  // raw bytes; nullopt is a durable wake (or a gap)
  int by = 0;                          // the notifying backend, 0: unknown
  gap_cause gap = gap_cause::none;
};
struct status {
  bool healthy = false;
  bool draining = false;
  std::uint32_t grace_ms = 0;
  std::string reason;       // empty when healthy
  bool full = false;        // the server has no connection to spare for the hub
  std::uint32_t slots = 0;  // connections that it has for ordinary roles; 0: not known
  bool operator==(const status&) const = default;
};
struct fence {
  std::uint64_t id = 0;
  int by = 0;  // the backend that notified, 0: unknown
};
struct pong {
  std::uint64_t id = 0;
};
struct stats {
  std::string json;  // the whole object, `t` included
};
struct control_answer {
  bool ok = false;
  std::string text;  // what was done, or why not
};
struct bye {
  code why = code::shutdown;
  std::string reason;
};
using from_hub =
    std::variant<welcome, ack, nack, wake, status, fence, pong, stats, control_answer, bye, unknown_message>;

}  // namespace pgwake
