#pragma once

#include <cstddef>
#include <string>
#include <string_view>

/// What a PostgreSQL server says, byte by byte, for tests in which it lies (manual, "Message Formats").
namespace pgwake::test::server {

inline std::string number(std::size_t value, int bytes) {
  std::string out;
  for (int i = bytes - 1; i >= 0; --i)
    out += static_cast<char>(value >> static_cast<unsigned>(8 * i) & 0xffU);
  return out;
}
inline std::string message(char type, std::string_view body) {
  return type + number(body.size() + 4, 4) + std::string(body);
}
inline std::string text(std::string_view words) { return std::string(words) + '\0'; }
inline std::string ready() { return message('Z', "I"); }
inline std::string complete(std::string_view tag) { return message('C', text(tag)); }
/// An ErrorResponse (E) or NoticeResponse (N).
inline std::string trouble(char type, std::string_view severity, std::string_view sqlstate,
                           std::string_view words) {
  return message(type, text("S" + std::string(severity)) + text("C" + std::string(sqlstate)) +
                           text("M" + std::string(words)) + '\0');
}
inline std::string parameter(std::string_view name, std::string_view value) {
  return message('S', text(name) + text(value));
}
/// CopyIn (G), CopyOut (H) or CopyBoth (W).
inline std::string copy(char type) { return message(type, std::string("\0\0\0", 3)); }
inline std::string one_text_column() {
  return message('T', number(1, 2) + text("c") + number(0, 4) + number(0, 2) + number(25, 4) +
                          number(0xffff, 2) + number(0xffffffff, 4) + number(0, 2));
}
inline std::string row(std::string_view value) {
  return message('D', number(1, 2) + number(value.size(), 4) + std::string(value));
}
inline std::string notification(int pid, std::string_view channel, std::string_view payload) {
  return message('A', number(static_cast<std::size_t>(pid), 4) + text(channel) + text(payload));
}
inline std::string times(std::size_t count, const std::string& what) {
  std::string out;
  out.reserve(count * what.size());
  while (count-- > 0) out += what;
  return out;
}

}  // namespace pgwake::test::server
