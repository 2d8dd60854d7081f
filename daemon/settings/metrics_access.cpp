#include "daemon/settings/metrics_access.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace pgwaked {
namespace {

constexpr std::size_t shortest_token = 16;
constexpr std::size_t longest_token = 512;  // a header has 8 KiB

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit) && error == std::errc{} &&
         end == text.data() + text.size();
}

bool is_token_letter(char c) {
  const char l = lower(c);
  return (l >= 'a' && l <= 'z') || is_digit(c) ||
         std::string_view("-._~+/=").find(c) != std::string_view::npos;
}

}  // namespace

bool names_loopback(std::string_view host) {
  for (const std::string_view name : {"localhost", "127.0.0.1", "[::1]"}) {
    if (!same_word(host.substr(0, name.size()), name)) continue;
    const auto rest = host.substr(name.size());
    return rest.empty() || (rest[0] == ':' && is_port(rest.substr(1)));
  }
  return false;
}

std::optional<std::string_view> bearer_of(std::string_view authorization) {
  constexpr std::string_view scheme = "Bearer ";
  if (!same_word(authorization.substr(0, scheme.size()), scheme)) return std::nullopt;
  authorization.remove_prefix(scheme.size());
  while (authorization.starts_with(' ')) authorization.remove_prefix(1);
  return authorization;
}

bool same_token(std::string_view given, std::string_view wanted) {
  if (given.size() != wanted.size() || wanted.empty()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    difference |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(wanted[i]);
  return difference == 0;
}

std::string_view token_fault(std::string_view token) {
  if (token.empty()) return "it is empty";
  if (token.size() < shortest_token) return "a token of fewer than 16 letters can be guessed";
  if (token.size() > longest_token) return "a token has at most 512 letters";
  if (!std::all_of(token.begin(), token.end(), is_token_letter))
    return "a token has letters, digits and - . _ ~ + / = alone";
  return {};
}

}  // namespace pgwaked
