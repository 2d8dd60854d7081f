#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "daemon/settings/settings.hpp"

namespace pgwaked {

enum class option_kind { text, path, duration, size, count, boolean, mode, list, level, format, address };

// One setting. Its command line option, TOML key and environment variable follow from `name`.
struct option {
  using member = std::variant<std::string settings::*, std::chrono::milliseconds settings::*,
                              std::uint64_t settings::*, unsigned settings::*, bool settings::*,
                              pgwaked::log_level settings::*, pgwaked::log_format settings::*,
                              metrics_address settings::*, std::vector<allow_rule> settings::*>;

  std::string_view name;      // `outbox_max_bytes`
  option_kind kind;           // how a value is written
  member field;               // where it goes
  std::string_view initial;   // the default, as one would write it; empty: none
  bool reloadable;            // SIGHUP may change it without dropping a worker
  std::string_view help;      // one line
  std::uint64_t min = 0;      // milliseconds, bytes, or a plain count
  std::uint64_t max = 0;      // inclusive; 0: no bounds
  std::string_view why = "";  // why these bounds, or this form
  bool secret = false;        // may hold a password
};

// Every setting of `run`, in the order in which people read them.
std::span<const option> option_table();
const option* find_option(std::string_view name);
std::string flag_of(std::string_view name);            // `--outbox-max-bytes`
std::string environment_of(std::string_view name);     // `PGWAKE_OUTBOX_MAX_BYTES`
std::string_view placeholder_of(const option& which);  // `DURATION`, for --help; empty for a boolean

// PGWAKE_* variables that are no setting of the daemon, but of other parts of pgwake. Extend it there.
std::span<const std::string_view> foreign_environment();
// Whether `variable` (PGWAKE_...) means something to any part of pgwake.
bool known_environment(std::string_view variable);

}  // namespace pgwaked
