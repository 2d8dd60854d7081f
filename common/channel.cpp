#include "common/channel.hpp"

#include <algorithm>

#include "common/unicode.hpp"

namespace pgwake {

std::optional<std::string> channel_fault(std::string_view name) {
  if (name.empty()) return "the channel name is empty";
  if (name.find('\0') != std::string_view::npos) return "the channel name has a NUL byte";
  // No encoding has a character in less than a byte. Where no characters can be told, the bytes are the name.
  if (!is_utf8(name)) return length_fault(name);
  const auto characters = std::count_if(
      name.begin(), name.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
  if (static_cast<std::size_t>(characters) > max_channel_bytes) return length_fault(name);
  return std::nullopt;
}

std::optional<std::string> length_fault(std::string_view name) {
  if (name.size() <= max_channel_bytes) return std::nullopt;
  return "the channel name has " + std::to_string(name.size()) + " bytes, PostgreSQL takes at most " +
         std::to_string(max_channel_bytes);
}

std::string quote_identifier(std::string_view name) {
  std::string out;
  out.reserve(name.size() + 2);
  out += '"';
  for (const char c : name) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
  return out;
}

std::string quote_literal(std::string_view text) {
  std::string out = "E'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += c;
    out += c;
  }
  out += '\'';
  return out;
}

std::optional<queue_template> queue_template::parse(std::string_view text) {
  const auto at = text.find("{}");
  if (at == std::string_view::npos || text.find("{}", at + 2) != std::string_view::npos) return std::nullopt;
  queue_template out;
  out.before_ = text.substr(0, at);
  out.after_ = text.substr(at + 2);
  return out;
}

std::string queue_template::channel(std::string_view queue) const {
  std::string out;
  out.reserve(before_.size() + queue.size() + after_.size());
  out.append(before_).append(queue).append(after_);
  return out;
}

std::optional<std::string_view> queue_template::queue(std::string_view channel) const {
  if (channel.size() < before_.size() + after_.size() || !channel.starts_with(before_) ||
      !channel.ends_with(after_))
    return std::nullopt;
  return channel.substr(before_.size(), channel.size() - before_.size() - after_.size());
}

bool glob_match(std::string_view pattern, std::string_view text) {
  // Backtracks to the last `*` only: linear in practice, quadratic at worst.
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t mark = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || (pattern[p] == text[t] && pattern[p] != '*'))) {
      ++p;
      ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace pgwake
