#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/time.hpp"

namespace pgwake::pg {

// Keywords and values for PQconnectdbParams with expand_dbname.
using parameters = std::vector<std::pair<std::string, std::string>>;

struct connect_settings {
  std::string conninfo;  // any libpq connection string; empty: PG* environment and libpq's defaults
  std::string application_name;
  millis connect_timeout{5'000};  // per host
  std::string first{};            // one command to be run on the connecting thread, within connect_timeout
  // Where the connection string is in a file: read on the connecting thread, instead of `conninfo`.
  // `fault` set: it could not be had.
  std::function<std::string(std::string& fault)> read{};
  parameters over{};  // values as they are, which win over what the string says
};

// The user's connection string with pgwake's defaults for whatever the user left open, be it in the string,
// in a PG* variable or in the service named by either. application_name and client_encoding are always
// pgwake's. Reads environment and service file; call it on the connecting thread.
parameters connect_parameters(const connect_settings& settings);

// Empty if libpq can use the string, as far as can be told without connecting; else why not, in words that
// repeat none of its values: a string that is no URI for a letter shows its password wherever it is quoted.
std::string conninfo_fault(const std::string& conninfo);

// What the string itself says for a keyword, without environment and service file.
std::optional<std::string> value_in(const std::string& conninfo, std::string_view keyword);

// As libpq sees it.
std::string home_directory();

// Of the library that runs: `15.18`.
std::string libpq_version();

// What libpq makes of the string: the dbname it would ask for, empty if none is said anywhere.
std::string database_of(const std::string& conninfo);

}  // namespace pgwake::pg
