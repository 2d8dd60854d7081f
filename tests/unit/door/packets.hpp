#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/door/wire.hpp"

// PostgreSQL's protocol as a client writes it, and what is read of it in words.
namespace pgwake::test {

inline std::string int16_of(int value) { return {static_cast<char>(value >> 8), static_cast<char>(value)}; }
inline std::string int32_of(std::uint32_t value) {
  return {static_cast<char>(value >> 24U), static_cast<char>(value >> 16U), static_cast<char>(value >> 8U),
          static_cast<char>(value)};
}
inline std::string text(std::string_view t) { return std::string(t) + '\0'; }
inline std::string message(char type, const std::string& body) {
  return type + int32_of(static_cast<std::uint32_t>(body.size() + 4)) + body;
}
inline std::string startup(const std::string& parameters, std::uint32_t version = 3U << 16U) {
  const auto body = int32_of(version) + parameters + '\0';
  return int32_of(static_cast<std::uint32_t>(body.size() + 4)) + body;
}

inline std::string word(char type, std::string_view body) {
  pgwaked::door::body_reader r(body);
  switch (type) {
    case 'C':
      return std::string(r.text());
    case 'Z':
      return "(" + std::string(body) + ")";
    case 'E':
    case 'N': {
      std::string state;
      while (const auto code = r.byte()) {
        const auto value = r.text();
        if (code == 'C') state = value;
      }
      return (type == 'E' ? "!" : "~") + state;
    }
    case 'A': {
      r.int32();
      const std::string channel(r.text());
      return "*" + channel + "=" + std::string(r.text());
    }
    case 'S': {
      const std::string name(r.text());
      return name + "=" + std::string(r.text());
    }
    case 'D': {
      std::string row = "[";
      for (auto n = r.int16(); n > 0; --n) {
        const auto size = r.int32();
        row += (row.size() > 1 ? "," : "") +
               (size < 0 ? "NULL" : std::string(r.bytes(static_cast<std::size_t>(size))));
      }
      return row + "]";
    }
    default:
      return std::string(1, type);
  }
}

// Types, tags, SQLSTATEs, values, the state of ReadyForQuery; what was read is taken away.
inline std::string in_words(std::string& out) {
  std::string words;
  while (out.size() >= 5) {
    pgwaked::door::body_reader length(std::string_view(out).substr(1));
    const auto size = static_cast<std::size_t>(length.int32());
    REQUIRE(out.size() >= size + 1);
    words += (words.empty() ? "" : " ") + word(out[0], std::string_view(out).substr(5, size - 4));
    out.erase(0, size + 1);
  }
  REQUIRE(out.empty());
  return words;
}

}  // namespace pgwake::test
