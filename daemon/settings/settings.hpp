#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pgwaked {

// One entry of the allow-list. A worker is admitted if any rule's `kind` and `id` match its SO_PEERCRED, and
// may subscribe to a channel if any glob of its matching rules matches. No rule at all admits everyone whom
// the socket's mode lets in.
struct allow_rule {
  enum class who { everyone, uid, gid };

  who kind = who::everyone;
  std::uint32_t id = 0;            // a uid or gid; 0 and meaningless for `everyone`
  std::vector<std::string> globs;  // `*` and `?` on physical channels; empty: every channel
  std::string text;                // as it was written, for logs and `pgwaked config`

  bool operator==(const allow_rule&) const = default;
};

// Where metrics are served. TCP on another address than loopback takes a token (`metrics_token_file`).
struct metrics_address {
  enum class family { off, tcp, unix_socket };

  family kind = family::off;
  std::string host;  // an IPv4 or IPv6 address (no brackets); empty unless tcp
  std::uint16_t port = 0;
  std::string path;  // empty unless unix_socket

  bool leaves_the_host() const { return kind == family::tcp && host != "127.0.0.1" && host != "::1"; }
  bool operator==(const metrics_address&) const = default;
};

enum class log_level { trace, debug, info, warning, error };
enum class log_format { text, json };

// Every setting of `pgwaked run`. The initialisers are the defaults; a test holds them equal to the table in
// options.cpp, which says what each is for and which values it takes.
struct settings {
  std::string database;       // libpq connection string; empty: the PG* environment. May hold a password
  std::string database_file;  // file holding the connection string; empty: none. See read_database()
  std::string socket = "/run/pgwake/main/pgwake.sock";
  std::string config;            // the file that was read; empty: none
  std::string application_name;  // empty: `pgwaked@HOST`
  unsigned socket_mode = 0660;
  std::string socket_group;                 // as given; empty: the process's own
  std::optional<std::uint32_t> socket_gid;  // `socket_group` resolved
  std::string queue_template = "pgmq.q_{}.INSERT";

  bool front_door = false;
  std::string front_door_dir;  // empty: the folder of `socket`
  std::uint64_t front_door_port = 5'432;
  std::chrono::milliseconds front_door_grace{15'000};

  std::chrono::milliseconds heartbeat{5'000};
  std::chrono::milliseconds probe_interval{15'000};
  std::chrono::milliseconds probe_timeout{5'000};
  std::chrono::milliseconds connect_timeout{5'000};  // per host; whole seconds
  std::chrono::milliseconds unlisten_linger{30'000};
  std::chrono::milliseconds drain_grace{5'000};
  std::chrono::milliseconds frame_deadline{10'000};

  std::uint64_t outbox_max_bytes = 16ULL << 20;
  std::uint64_t outbox_max_frames = 1'000'000;
  std::uint64_t outbox_total_max_bytes = 512ULL << 20;
  std::uint64_t max_workers = 4'096;
  std::uint64_t max_workers_per_user = 0;  // 0: three quarters, and all of it to root and the hub's user
  std::uint64_t max_channels = 50'000;
  std::uint64_t max_channels_per_user = 0;  // likewise

  std::vector<allow_rule> allow;  // empty: everyone
  bool allow_session_pooler = false;
  pgwaked::log_level log_level = pgwaked::log_level::info;
  pgwaked::log_format log_format = pgwaked::log_format::text;
  metrics_address metrics_listen;
  std::string metrics_token_file;  // empty: no token is asked for

  bool operator==(const settings&) const = default;
};

}  // namespace pgwaked
