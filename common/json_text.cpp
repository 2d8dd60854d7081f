#include "common/json_text.hpp"

#include <cstdint>
#include <cstring>

namespace pgwake {
namespace {

// How many bytes at the front of a JSON string go out as they are: none below 0x20, no quote, no backslash.
// Eight at a time; only whether one of them is special has to be exact.
std::size_t plain_prefix(std::string_view text) {
  constexpr std::uint64_t ones = 0x0101010101010101ULL;
  constexpr std::uint64_t tops = 0x8080808080808080ULL;
  const auto has_zero = [](std::uint64_t word) { return (word - ones) & ~word & tops; };
  std::size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, 8);
    const auto control = (word - ones * 0x20) & ~word & tops;
    if ((control | has_zero(word ^ ones * '"') | has_zero(word ^ ones * '\\')) != 0) break;
  }
  for (; at < text.size(); ++at) {
    const auto c = static_cast<unsigned char>(text[at]);
    if (c < 0x20 || c == '"' || c == '\\') break;
  }
  return at;
}

void append_escape(std::string& out, char c) {
  static constexpr std::string_view hex = "0123456789ABCDEF";
  out += '\\';
  switch (c) {
    case '"':
    case '\\':
      out += c;
      return;
    case '\b':
      out += 'b';
      return;
    case '\f':
      out += 'f';
      return;
    case '\n':
      out += 'n';
      return;
    case '\r':
      out += 'r';
      return;
    case '\t':
      out += 't';
      return;
    default:
      out += "u00";
      out += hex[static_cast<unsigned char>(c) >> 4U];
      out += hex[static_cast<unsigned char>(c) & 15U];
  }
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// An escape without its backslash, off the front; false for those that append_escape() does not write.
bool take_escape(std::string_view& json, std::string& out) {
  if (json.empty()) return false;
  const char c = json[0];
  json.remove_prefix(1);
  switch (c) {
    case '"':
    case '\\':
      out += c;
      return true;
    case 'b':
      out += '\b';
      return true;
    case 'f':
      out += '\f';
      return true;
    case 'n':
      out += '\n';
      return true;
    case 'r':
      out += '\r';
      return true;
    case 't':
      out += '\t';
      return true;
    case 'u': {
      if (json.size() < 4 || json[0] != '0' || json[1] != '0') return false;
      const int high = hex_digit(json[2]);
      const int low = hex_digit(json[3]);
      if (high < 0 || high > 1 || low < 0) return false;
      out += static_cast<char>(high * 16 + low);
      json.remove_prefix(4);
      return true;
    }
    default:
      return false;
  }
}

}  // namespace

bool take_json_string(std::string_view& json, std::string& out) {
  if (json.empty() || json[0] != '"') return false;
  json.remove_prefix(1);
  out.clear();
  while (true) {
    const auto n = plain_prefix(json);
    out.append(json.substr(0, n));
    if (n == json.size()) return false;
    const char c = json[n];
    json.remove_prefix(n + 1);
    if (c == '"') return true;
    if (c != '\\' || !take_escape(json, out)) return false;
  }
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (true) {
    const auto n = plain_prefix(text);
    out.append(text.substr(0, n));
    if (n == text.size()) break;
    append_escape(out, text[n]);
    text.remove_prefix(n + 1);
  }
  out += '"';
}

}  // namespace pgwake
