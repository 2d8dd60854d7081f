#pragma once

#include <boost/system/result.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/settings/option_table.hpp"
#include "daemon/settings/settings.hpp"

namespace pgwaked {

// Names to numbers, injected so that tests do no I/O; nullopt: there is none of that name.
struct name_resolver {
  std::function<std::optional<std::uint32_t>(const std::string& name)> user_id;
  std::function<std::optional<std::uint32_t>(const std::string& name)> group_id;
};

// Reads `texts` (one, or any number for a list) into `which`'s field of `into`. nullopt, or why the value
// makes no sense, with the accepted form; then `into` is unchanged.
std::optional<std::string> assign(const option& which, const std::vector<std::string>& texts,
                                  const name_resolver& names, settings& into);

// A setting's value, or what was meant for one, for people: a connection string that stands in the wrong
// place shows no password.
std::string without_secrets(std::string_view text);

// The value as TOML, passwords hidden: `"5s"`, `4096`, `true`, `["uid:33 a*", "*"]`.
std::string show(const option& which, const settings& values);

// What a value looks like and its bounds, for documents: `duration, 100ms to 1m`.
std::string accepted_form(const option& which);

struct value_error {
  std::string reason;
};
// `WHO` or `WHO GLOB[,GLOB...]`; WHO is `uid:33`, `gid:33`, `user:www-data`, `group:www-data` or `*`.
boost::system::result<allow_rule, value_error> parse_allow_rule(std::string_view text,
                                                                const name_resolver& names);
// `off` (or nothing), `127.0.0.1:9187`, `[::1]:9187`, `localhost:9187`, `unix:/run/pgwake/main/metrics.sock`.
boost::system::result<metrics_address, value_error> parse_metrics_address(std::string_view text);
std::string to_string(const metrics_address& address);
std::string_view to_string(log_level level);
std::string_view to_string(log_format format);

}  // namespace pgwaked
