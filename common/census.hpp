#pragma once

#include <string>
#include <string_view>

namespace pgwake {

// What sessions are called in pg_stat_activity: one of these, then census_host().
inline constexpr std::string_view hub_prefix = "pgwaked@";
inline constexpr std::string_view check_prefix = "pgwaked-check@";
inline constexpr std::string_view fallback_prefix = "pgwake-fallback@";

// PostgreSQL cuts application_name here (NAMEDATALEN - 1), without a word.
inline constexpr std::size_t max_application_name = 63;

// The host as application names write it, short enough to come whole after each prefix: a longer name is cut
// and ends in a hash of all of it, so that hosts whose names begin alike stay apart.
std::string census_host(std::string_view host);

}  // namespace pgwake
