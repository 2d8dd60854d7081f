#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/doctor/facts.hpp"

namespace pgwaked {

enum class verdict { ok, warning, failure };
std::string_view to_string(verdict v);

struct finding {
  std::string check;  // one word, stable: scripts may look for it
  verdict how = verdict::ok;
  std::string found;
  std::string advice;  // what to do; empty when ok
};

// Connections that pgwake pins on the server, against what the server has.
struct connection_budget {
  std::int64_t here_now = 0;    // this host's: hubs and fallbacks
  std::int64_t here_worst = 0;  // all its workers fallen back, as far as fallback_limit lets them
  std::int64_t workers_here = 0;
  std::optional<std::uint64_t> fallback_limit;
  std::int64_t server_now = 0;  // pgwake's, of all hosts
  std::map<std::string, doctor_facts::host_census> by_host;
  std::int64_t used = 0, max_connections = 0, reserved = 0;  // by everybody
  std::int64_t free = 0;
};

struct skipped_check {
  std::string check;
  std::string why;
};

struct doctor_report {
  std::vector<finding> findings;       // in the order of the chain
  std::vector<skipped_check> skipped;  // checks that could not be made; none of them has a finding
  std::optional<connection_budget> budget;
  verdict worst() const;
};

// The verdicts. Pure.
doctor_report judge(const doctor_facts& facts);

// For people; `colours` for a terminal. At most `width` columns where words allow it.
std::string report_text(const doctor_report& r, std::size_t width, bool colours);
// One object: `verdict`, `checks` (list of `check`, `verdict`, `found`, `advice`), `skipped` (list of
// checks), `skipped_because` (by check), `budget`.
std::string report_json(const doctor_report& r);

}  // namespace pgwaked
