#pragma once

#include <string>
#include <string_view>
#include <system_error>

namespace pgwake {

// What can go wrong inside pgwake. A deadline is its own error, never a bare "operation aborted".
enum class errc {
  malformed_frame = 1,
  frame_too_long,
  invalid_channel,
  forbidden,
  limit,
  wrong_database,
  protocol,
  listen_failed,
  shutdown,
  connect_failed,
  connect_timeout,
  session_lost,
  deadline,
  closed,
};

const std::error_category& pgwake_category() noexcept;
std::error_code make_error_code(errc e) noexcept;

// The protocol's codes, as `nack` and `bye` carry them on the wire.
enum class code { invalid_channel, forbidden, limit, wrong_database, protocol, listen_failed, shutdown };

std::string_view to_string(code c) noexcept;
// An unknown text (from a newer hub) reads as `protocol`.
code code_from_string(std::string_view text) noexcept;

}  // namespace pgwake

template <>
struct std::is_error_code_enum<pgwake::errc> : std::true_type {};
