#pragma once

#include <boost/system/result.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace pgwake {

// Why a text is no value, for people: `a unit is missing; write a whole number and ms, s, m or h,
// such as 5s`.
struct unit_error {
  std::string reason;
};

// A whole number and `ms`, `s`, `m` or `h`, nothing else: no sign, no fraction, no space.
boost::system::result<std::chrono::milliseconds, unit_error> parse_duration(std::string_view text);
// A whole number, plain for bytes or with `KiB`, `MiB`, `GiB` or `TiB`.
boost::system::result<std::uint64_t, unit_error> parse_size(std::string_view text);
// A plain whole number.
boost::system::result<std::uint64_t, unit_error> parse_count(std::string_view text);

// The largest unit that says it exactly; parse_ of it gives the same value back. Negative durations: `0s`.
std::string format_duration(std::chrono::milliseconds value);
std::string format_size(std::uint64_t bytes);

}  // namespace pgwake
