#include "common/units.hpp"

#include <array>
#include <limits>
#include <optional>

namespace pgwake {
namespace {

constexpr std::string_view duration_form = "write a whole number and ms, s, m or h, such as 250ms or 15s";
constexpr std::string_view size_form =
    "write bytes as a whole number, or one with KiB, MiB, GiB or TiB, such as 16MiB";
constexpr std::string_view count_form = "write a whole number, such as 4096";

struct unit {
  std::string_view name;
  std::uint64_t factor;
};
constexpr std::array durations{unit{"h", 3'600'000}, unit{"m", 60'000}, unit{"s", 1'000}, unit{"ms", 1}};
constexpr std::array sizes{unit{"TiB", 1ULL << 40}, unit{"GiB", 1ULL << 30}, unit{"MiB", 1ULL << 20},
                           unit{"KiB", 1ULL << 10}};

// Spellings that people bring from elsewhere, with the one that is meant.
struct near_miss {
  std::string_view written;
  std::string_view meant;
};
constexpr std::array near_misses{
    near_miss{"sec", "s"},   near_miss{"secs", "s"}, near_miss{"second", "s"}, near_miss{"seconds", "s"},
    near_miss{"min", "m"},   near_miss{"mins", "m"}, near_miss{"minute", "m"}, near_miss{"minutes", "m"},
    near_miss{"msec", "ms"}, near_miss{"hour", "h"}, near_miss{"hours", "h"},  near_miss{"ms", "ms"},
    near_miss{"s", "s"},     near_miss{"m", "m"},    near_miss{"h", "h"},      near_miss{"m", "MiB"},
    near_miss{"k", "KiB"},   near_miss{"kb", "KiB"}, near_miss{"kib", "KiB"},  near_miss{"mb", "MiB"},
    near_miss{"mib", "MiB"}, near_miss{"g", "GiB"},  near_miss{"gb", "GiB"},   near_miss{"gib", "GiB"},
    near_miss{"t", "TiB"},   near_miss{"tb", "TiB"}, near_miss{"tib", "TiB"},
};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

unit_error wrong(std::string_view what, std::string_view form) {
  return {std::string(what) + "; " + std::string(form)};
}

template <std::size_t N>
boost::system::result<std::uint64_t, unit_error> parse(std::string_view text,
                                                       const std::array<unit, N>& units,
                                                       std::string_view form, bool unit_required,
                                                       std::uint64_t max) {
  if (text.empty()) return wrong("empty", form);
  if (text.front() == '-') return wrong("it may not be negative", form);
  std::uint64_t number = 0;
  std::size_t digits = 0;
  bool too_large = false;
  for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9'; ++digits) {
    const auto digit = static_cast<std::uint64_t>(text[digits] - '0');
    too_large = too_large || number > (max - digit) / 10;
    if (!too_large) number = number * 10 + digit;
  }
  if (digits == 0) return wrong("it does not begin with a digit", form);
  const std::string_view suffix = text.substr(digits);
  std::uint64_t factor = 1;
  if (suffix.empty()) {
    if (unit_required) return wrong("a unit is missing", form);
  } else {
    std::optional<std::uint64_t> known;
    for (const unit& each : units) {
      if (each.name == suffix) known = each.factor;
    }
    if (!known) {
      for (const near_miss& each : near_misses) {
        if (each.written != lower(suffix)) continue;
        for (const unit& one : units) {
          if (one.name == each.meant)
            return wrong("for " + std::string(suffix) + " write " + std::string(each.meant), form);
        }
      }
      return wrong("what follows the number is not a unit", form);
    }
    factor = *known;
  }
  if (too_large || number > max / factor) return wrong("the number is too large", form);
  return number * factor;
}

}  // namespace

boost::system::result<std::chrono::milliseconds, unit_error> parse_duration(std::string_view text) {
  constexpr auto max = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const auto parsed = parse(text, durations, duration_form, true, max);
  if (!parsed) return parsed.error();
  return std::chrono::milliseconds(static_cast<std::int64_t>(*parsed));
}

boost::system::result<std::uint64_t, unit_error> parse_size(std::string_view text) {
  return parse(text, sizes, size_form, false, std::numeric_limits<std::uint64_t>::max());
}

boost::system::result<std::uint64_t, unit_error> parse_count(std::string_view text) {
  return parse(text, std::array<unit, 0>{}, count_form, false, std::numeric_limits<std::uint64_t>::max());
}

std::string format_duration(std::chrono::milliseconds value) {
  if (value.count() <= 0) return "0s";
  const auto ms = static_cast<std::uint64_t>(value.count());
  for (const unit& each : durations) {
    if (ms % each.factor == 0) return std::to_string(ms / each.factor) + std::string(each.name);
  }
  return std::to_string(ms) + "ms";
}

std::string format_size(std::uint64_t bytes) {
  for (const unit& each : sizes) {
    if (bytes != 0 && bytes % each.factor == 0) {
      return std::to_string(bytes / each.factor) + std::string(each.name);
    }
  }
  return std::to_string(bytes);
}

}  // namespace pgwake
