#include "daemon/terminal/text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "common/unicode.hpp"

namespace pgwaked {
namespace {

struct character {
  char32_t code = 0;
  std::size_t bytes = 1;
  bool valid = false;
};

character first_of(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t n = lead < 0x80 ? 1 : lead < 0xC0 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (n == 0 || text.size() < n || !pgwake::is_utf8(text.substr(0, n))) return {lead, 1, false};
  if (n == 1) return {lead, 1, true};
  char32_t code = lead & (0xFFU >> (n + 1));
  for (std::size_t i = 1; i < n; ++i) code = (code << 6U) | (static_cast<unsigned char>(text[i]) & 0x3FU);
  return {code, n, true};
}

struct range {
  char32_t first, last;
};

template <std::size_t N>
bool within(const std::array<range, N>& ranges, char32_t code) {
  for (const auto& r : ranges)
    if (code >= r.first && code <= r.last) return true;
  return false;
}

// Controls, and format characters that reorder, join or end lines.
constexpr std::array<range, 9> unsafe = {{{0x00, 0x1F},
                                          {0x7F, 0x9F},
                                          {0x61C, 0x61C},
                                          {0x200B, 0x200F},
                                          {0x2028, 0x202E},
                                          {0x2060, 0x206F},
                                          {0xFEFF, 0xFEFF},
                                          {0xFFF9, 0xFFFB},
                                          {0xE0000, 0xE007F}}};
// Unicode's combining marks, as far as they are common.
constexpr std::array<range, 6> combining = {
    {{0x300, 0x36F}, {0x483, 0x489}, {0x591, 0x5BD}, {0x1AB0, 0x1AFF}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}}};
// East Asian Wide and Fullwidth, and emoji.
constexpr std::array<range, 10> wide = {{{0x1100, 0x115F},
                                         {0x2E80, 0x303E},
                                         {0x3041, 0xA4CF},
                                         {0xA960, 0xA97F},
                                         {0xAC00, 0xD7A3},
                                         {0xF900, 0xFAFF},
                                         {0xFE30, 0xFE6F},
                                         {0xFF00, 0xFF60},
                                         {0x1F300, 0x1FAFF},
                                         {0x20000, 0x3FFFD}}};

std::size_t width_of(char32_t code) { return within(combining, code) ? 0 : within(wide, code) ? 2 : 1; }

std::string escaped(const character& c) {
  std::array<char, 16> out{};
  const char* form = !c.valid || c.code < 0x80 ? "\\x%02x" : c.code <= 0xFFFF ? "\\u%04x" : "\\U%08x";
  std::snprintf(out.data(), out.size(), form, static_cast<unsigned>(c.code));
  return out.data();
}

void append_json_escape(std::string& out, unsigned unit) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "\\u%04x", unit & 0xFFFFU);
  out += text.data();
}

std::string formatted(const char* form, double value, const char* unit) {
  std::array<char, 48> out{};
  std::snprintf(out.data(), out.size(), form, value, unit);
  return out.data();
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto c = first_of(text);
    if (!c.valid || within(unsafe, c.code))
      out += escaped(c);
    else
      out += text.substr(0, c.bytes);
    text.remove_prefix(c.bytes);
  }
  return out;
}

std::string printable_json(std::string_view json) {
  std::string out;
  while (!json.empty()) {
    const auto c = first_of(json);
    if (!c.valid) {
      out += "\\ufffd";
    } else if (!within(unsafe, c.code)) {
      out += json.substr(0, c.bytes);
    } else if (c.code <= 0xFFFF) {
      append_json_escape(out, c.code);
    } else {  // a surrogate pair
      append_json_escape(out, 0xD800 + ((c.code - 0x10000) >> 10U));
      append_json_escape(out, 0xDC00 + ((c.code - 0x10000) & 0x3FFU));
    }
    json.remove_prefix(c.bytes);
  }
  return out;
}

std::string in_one_line(std::string_view message) {
  std::vector<std::string_view> lines;
  while (!message.empty()) {
    const auto end = std::min(message.find('\n'), message.size());
    auto line = message.substr(0, end);
    message.remove_prefix(std::min(end + 1, message.size()));
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (!line.empty() && std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
  }
  std::string out;
  for (const auto line : lines) out += (out.empty() ? "" : "; ") + std::string(line);
  return out;
}

std::size_t columns_of(std::string_view text) {
  std::size_t out = 0;
  while (!text.empty()) {
    const auto c = first_of(text);
    out += width_of(c.code);
    text.remove_prefix(c.bytes);
  }
  return out;
}

std::string cut(std::string_view text, std::size_t width) {
  if (columns_of(text) <= width) return std::string(text);
  if (width == 0) return {};
  const bool utf8 = terminal_is_utf8();
  std::size_t used = 0;
  std::size_t taken = 0;
  while (taken < text.size()) {
    const auto c = first_of(text.substr(taken));
    if (used + width_of(c.code) > width - 1) break;
    used += width_of(c.code);
    taken += c.bytes;
  }
  return std::string(text.substr(0, taken)) + (utf8 ? "…" : "~");
}

std::string left_aligned(std::string_view text, std::size_t width) {
  auto out = cut(text, width);
  out.append(width - columns_of(out), ' ');
  return out;
}

std::string right_aligned(std::string_view text, std::size_t width) {
  const auto out = cut(text, width);
  return std::string(width - columns_of(out), ' ') + out;
}

std::string wrapped(std::string_view label, std::string_view text, std::size_t width) {
  const std::string indent(columns_of(label), ' ');
  std::string out;
  std::string line(label);
  bool fresh = true;
  while (!text.empty()) {
    const auto end = std::min(text.find(' '), text.size());
    const auto word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!fresh && columns_of(line) + 1 + columns_of(word) > width) {
      out += line + "\n";
      line = indent;
      fresh = true;
    }
    if (!fresh) line += ' ';
    line += word;
    fresh = false;
  }
  return out + line + "\n";
}

bool terminal_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string low;
    for (const char* at = value; *at != '\0'; ++at)
      low += static_cast<char>(std::tolower(static_cast<unsigned char>(*at)));
    return low.find("utf-8") != low.npos || low.find("utf8") != low.npos;
  }
  return false;
}

std::string short_duration(std::chrono::milliseconds value) {
  const auto ms = std::max<std::int64_t>(0, value.count());
  const auto two = [](std::int64_t a, const char* unit_a, std::int64_t b, const char* unit_b) {
    auto out = std::to_string(a) + unit_a;
    if (b != 0) out += " " + std::to_string(b) + unit_b;
    return out;
  };
  const auto s = ms / 1000;
  if (ms < 1000) return std::to_string(ms) + " ms";
  if (s < 60) return ms % 1000 < 50 ? std::to_string(s) + " s" : formatted("%.1f%s", double(ms) / 1000, " s");
  if (s < 3600) return two(s / 60, " min", s % 60, " s");
  if (s < 86'400) return two(s / 3600, " h", s / 60 % 60, " min");
  return two(s / 86'400, " d", s / 3600 % 24, " h");
}

std::string compact_duration(std::chrono::milliseconds value) {
  const auto ms = std::max<std::int64_t>(0, value.count());
  const auto s = ms / 1000;
  if (ms < 1000) return std::to_string(ms) + "ms";
  if (s < 10) return formatted("%.1f%s", static_cast<double>(ms / 100) / 10, "s");
  if (s < 100) return std::to_string(s) + "s";
  if (s < 6000) return std::to_string(s / 60) + "m";
  if (s < 360'000) return std::to_string(s / 3600) + "h";
  return std::to_string(s / 86'400) + "d";
}

std::string short_bytes(std::uint64_t bytes) {
  if (bytes < 1000) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes);
  const char* unit = "B";
  for (const char* next : {"KiB", "MiB", "GiB", "TiB"}) {
    value /= 1024;
    unit = next;
    if (value < 1000) break;
  }
  return formatted(value < 99.95 ? "%.1f %s" : "%.0f %s", value, unit);
}

std::string grouped(std::uint64_t number) {
  auto out = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(out.size()) - 3; at > 0; at -= 3)
    out.insert(static_cast<std::size_t>(at), ",");
  return out;
}

std::string short_number(double number) {
  if (!(number > 0)) return "0";
  if (number < 0.05) return "<0.1";
  if (number < 99.95 && std::abs(number - std::round(number)) > 0.05) return formatted("%.1f%s", number, "");
  if (number < 99'999.5) return formatted("%.0f%s", number, "");
  const char* unit = "k";
  double value = number / 1000;
  for (const char* next : {"M", "G", "T"}) {
    if (value < 999.5) break;
    value /= 1000;
    unit = next;
  }
  return formatted(value < 99.95 ? "%.1f%s" : "%.0f%s", value, unit);
}

}  // namespace pgwaked
