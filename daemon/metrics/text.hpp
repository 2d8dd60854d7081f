#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "daemon/core/engine.hpp"

namespace pgwaked {

// What the hub counts and measures, as text that Prometheus and its like read. Pure: the shell brings the
// time and what only the system knows.
//
// One table holds every metric: name, kind, unit, help, and how its value is found. The page, the documents,
// the dashboard and the alerts are tested against it. No label takes its values from workers, channels or
// payloads, so the number of series is fixed, and nothing is shown that `status` would hide from other users.

struct process_figures {
  double cpu_seconds = 0;
  std::uint64_t resident_bytes = 0;
  double start_time_seconds = 0;  // since 1970
  std::uint64_t open_fds = 0;
  std::uint64_t max_fds = 0;
};

// What happened to its settings since it started.
struct reload_figures {
  std::uint64_t done = 0;
  std::uint64_t refused = 0;
  std::uint64_t waiting_for_restart = 0;  // settings that the last reload found changed and cannot change
};

struct metrics_view {
  const engine& hub;
  pgwake::steady_time now;
  pgwake::steady_time started;
  std::uint64_t refused = 0;  // workers not let in
  std::optional<process_figures> process{};
  std::uint64_t log_dropped = 0;  // lines that nobody took in time
  reload_figures reloads{};
  std::string host{};
  std::optional<double> certificate_ends{};                // the server's, since 1970
  std::map<std::string, std::uint64_t> failed_attempts{};  // by reason
};

// `prometheus`: the text format 0.0.4, which everything reads. `openmetrics`: OpenMetrics 1.0. They differ in
// what the metadata calls counters and infos; samples are the same. UNIT and EOF are comments to the former.
enum class metrics_format { prometheus, openmetrics };

std::string metrics_text(const metrics_view& view, metrics_format format);
std::string_view content_type(metrics_format format);
// The format that the value of an HTTP `Accept` header asks for.
metrics_format accepted_format(std::string_view accept);

// Why `/healthz` says 503, in words; nothing while healthy.
std::optional<std::string> unhealthy_because(const engine& hub);

enum class metric_kind { counter, gauge, histogram, info };
std::string_view to_string(metric_kind kind);

struct metric_description {
  std::string_view name;  // as its samples are called: a counter ends in _total, an info in _info
  metric_kind kind;
  std::string_view unit;    // seconds, bytes, ratio, or empty: a plain number
  std::string_view labels;  // such as `dialect`; empty: none
  std::string_view help;
};
// Every metric, in the order in which they are written.
std::span<const metric_description> metric_descriptions();

}  // namespace pgwaked
