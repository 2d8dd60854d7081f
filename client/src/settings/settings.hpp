#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/src/core/types.hpp"
#include "common/upstream.hpp"

namespace pgwake::client {

// All that a handle can be told.
struct settings {
  std::string socket = "/run/pgwake/main/pgwake.sock";
  std::string database;
  std::string database_called = "database";  // by whoever gave it: the option's name or the variable's
  std::string application_name;              // empty: pgwake-fallback@HOST
  std::string hub_user = "pgwake";
  std::optional<std::uint64_t> fallback_limit;  // 0: no limit; not set: by what the server has
  std::string fallback_dir = "/run/lock/pgwake";
  std::size_t queue_max_bytes = 64U << 20U;
  millis connect_timeout{5'000};
  failover_settings failover;
  pgwake::upstream::settings upstream;
};

// One option. Every one is documented in docs/client.md, which a test holds against this table.
struct option {
  const char* name;
  const char* environment;    // PGWAKE_ and the name in capitals, but for application_name
  const char* default_value;  // as it would be written
  const char* about;
  bool program_wins;  // over the environment: it says what, not how
  // Empty, or why the value makes no sense, with the accepted form.
  std::string (*set)(settings& s, std::string_view value);
};

const std::vector<option>& option_table();
const option* find_option(std::string_view name);

using values = std::map<std::string, std::string, std::less<>>;
using environment = std::function<const char*(const char*)>;

// The defaults, what the program said and what the environment says. On failure `fault` is NAME=VALUE and
// the accepted form. The name says where the value came from: it is the option's if the program set it,
// else the environment variable's.
std::optional<settings> resolve(const values& program, const environment& env, std::string& fault);

}  // namespace pgwake::client
