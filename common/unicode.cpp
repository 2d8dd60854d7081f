#include "common/unicode.hpp"

#include <algorithm>

#include "common/byte_blocks.hpp"

namespace pgwake {
namespace {

bool continuation(unsigned char c) { return (c & 0xC0U) == 0x80U; }

// Length of the valid sequence at the front of `s` (not empty), 0 if there is none.
std::size_t sequence(std::string_view s) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned char c = at(0);
  if (c < 0x80) return 1;
  if (c < 0xC2 || c > 0xF4) return 0;
  const std::size_t length = c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
  if (s.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if (!continuation(at(i))) return 0;
  const unsigned char second = at(1);
  if ((c == 0xE0 && second < 0xA0) || (c == 0xED && second > 0x9F) || (c == 0xF0 && second < 0x90) ||
      (c == 0xF4 && second > 0x8F))
    return 0;
  return length;
}

}  // namespace

bool is_utf8(std::string_view bytes) noexcept {
  // Most text is ASCII.
  constexpr auto high = [](unsigned char c) { return static_cast<unsigned char>(c & 0x80U); };
  if (all_clean(bytes, high)) return true;
  while (!bytes.empty()) {
    bytes.remove_prefix(clean_blocks(bytes, high));
    if (bytes.empty()) break;
    const auto n = sequence(bytes);
    if (n == 0) return false;
    bytes.remove_prefix(n);
  }
  return true;
}

std::string replace_bad_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() + 16);
  while (!bytes.empty()) {
    const auto n = sequence(bytes);
    if (n == 0) {
      out += "\xEF\xBF\xBD";
      bytes.remove_prefix(1);
    } else {
      out.append(bytes.substr(0, n));
      bytes.remove_prefix(n);
    }
  }
  return out;
}

bool is_printable_ascii(std::string_view bytes) noexcept {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

}  // namespace pgwake
