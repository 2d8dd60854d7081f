#include "common/json_text.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "common/byte_blocks.hpp"

namespace pgwake {
namespace {

// Not as it is in a JSON string: below 0x20, a quote, a backslash.
constexpr auto special = [](unsigned char c) {
  return static_cast<unsigned char>(static_cast<unsigned char>(c < 0x20) |
                                    static_cast<unsigned char>(c == '"') |
                                    static_cast<unsigned char>(c == '\\'));
};

// How many bytes at the front of a JSON string go out as they are.
std::size_t plain_prefix(std::string_view text) {
  auto at = clean_blocks(text, special);
  while (at < text.size() && special(static_cast<unsigned char>(text[at])) == 0) ++at;
  return at;
}

// What follows the backslash for each byte: 0: none is needed, 'u': u00 and two digits.
constexpr std::array<char, 256> escapes = [] {
  std::array<char, 256> out{};
  for (std::size_t c = 0; c < 0x20; ++c) out[c] = 'u';
  out['"'] = '"';
  out['\\'] = '\\';
  out['\b'] = 'b';
  out['\f'] = 'f';
  out['\n'] = 'n';
  out['\r'] = 'r';
  out['\t'] = 't';
  return out;
}();

constexpr std::size_t long_run = 64;      // plain bytes that are worth a copy of their own
constexpr std::size_t dense_block = 128;  // bytes taken one by one where escapes are close together

// At most dense_block bytes.
void append_escaped(std::string& out, std::string_view text) {
  static constexpr std::string_view hex = "0123456789ABCDEF";
  std::array<char, dense_block * 6> block;
  char* to = block.data();
  for (const char c : text) {
    const char escape = escapes[static_cast<unsigned char>(c)];
    if (escape == 0) {
      *to++ = c;
      continue;
    }
    *to++ = '\\';
    *to++ = escape;
    if (escape != 'u') continue;
    *to++ = '0';
    *to++ = '0';
    *to++ = hex[static_cast<unsigned char>(c) >> 4U];
    *to++ = hex[static_cast<unsigned char>(c) & 15U];
  }
  out.append(block.data(), to);
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// An escape without its backslash, off the front; false for those that append_json_string() does not write.
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
  // Nearly always nothing in it is escaped.
  const auto quote = json.find('"');
  if (const auto text = json.substr(0, quote); quote != std::string_view::npos && all_clean(text, special)) {
    out = text;
    json.remove_prefix(quote + 1);
    return true;
  }
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
  while (!text.empty()) {
    auto n = plain_prefix(text);
    if (n >= long_run || n == text.size()) {
      out.append(text.substr(0, n));
    } else {
      n = std::min(dense_block, text.size());
      append_escaped(out, text.substr(0, n));
    }
    text.remove_prefix(n);
  }
  out += '"';
}

}  // namespace pgwake
