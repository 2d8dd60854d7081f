#include "bench/wire.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>

namespace pgwake::bench {
namespace {

std::size_t number(std::string_view digits) {
  std::size_t n = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), n);
  return n;
}

}  // namespace

std::size_t wire::take(std::string_view bytes) {
  std::size_t done = 0;
  if (!partial_.empty()) {
    partial_.append(bytes);
    bytes = partial_;
  }
  while (!bytes.empty()) {
    if (skip_ == 0) {
      const auto h = look(bytes);
      if (h.size == 0) break;
      counting_ = h.counts;
      skip_ = h.size + h.rest;
    }
    const auto n = std::min(skip_, bytes.size());
    bytes.remove_prefix(n);
    skip_ -= n;
    if (skip_ == 0 && counting_) ++done;
  }
  partial_ = std::string(bytes);
  return done;
}

wire::head pgwake_wire::look(std::string_view bytes) {
  static constexpr std::string_view is_wake = R"({"t":"wake")";
  if (bytes.size() < 4 + is_wake.size()) return {};
  std::size_t size = 0;
  for (std::size_t i = 0; i < 4; ++i) size = size << 8U | static_cast<unsigned char>(bytes[i]);
  if (bytes.substr(4, 10) == R"({"t":"bye")") throw std::runtime_error("the hub dismissed a reader");
  return {4, size, bytes.substr(4, is_wake.size()) == is_wake};
}

// *3 $7 message $1 c $100: six lines, then the payload and a line's end. The answer to SUBSCRIBE ends in :1.
wire::head redis_wire::look(std::string_view bytes) {
  std::size_t at = 0;
  std::size_t line = 0;
  for (int i = 0; i < 6; ++i) {
    line = at;
    const auto end = bytes.find("\r\n", at);
    if (end == std::string_view::npos) return {};
    at = end + 2;
  }
  if (bytes[line] == ':') return {at, 0, true};
  if (bytes[line] != '$') throw std::runtime_error("unexpected answer of Redis");
  return {at, number(bytes.substr(line + 1)) + 2, true};
}

// MSG c 1 100, then the payload and a line's end.
wire::head nats_wire::look(std::string_view bytes) {
  const auto end = bytes.find("\r\n");
  if (end == std::string_view::npos) return {};
  const auto line = bytes.substr(0, end);
  if (line.rfind("MSG ", 0) == 0) return {end + 2, number(line.substr(line.rfind(' ') + 1)) + 2, true};
  if (line == "PING") send(fd_, "PONG\r\n", 6, MSG_NOSIGNAL);
  if (line.rfind("-ERR", 0) == 0) throw std::runtime_error("NATS: " + std::string(line));
  return {end + 2, 0, false};
}

}  // namespace pgwake::bench
