#pragma once

#include <string_view>

namespace pgwake {

// The protocol's codes, as `nack` and `bye` carry them on the wire.
enum class code {
  invalid_channel,
  forbidden,
  limit,
  wrong_database,
  protocol,
  listen_failed,
  shutdown,
  moved
};

std::string_view to_string(code c) noexcept;
// An unknown text (from a newer hub) reads as `protocol`.
code code_from_string(std::string_view text) noexcept;

}  // namespace pgwake
