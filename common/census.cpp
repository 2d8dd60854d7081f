#include "common/census.hpp"

#include <cstdint>

namespace pgwake {
namespace {

constexpr std::size_t longest = max_application_name - fallback_prefix.size();
constexpr std::size_t hash_digits = 8;

// FNV-1a: the same on every machine and in every version, as the names are compared.
std::string hash_of(std::string_view text) {
  std::uint32_t hash = 2'166'136'261U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16'777'619U;
  std::string out;
  for (int shift = 28; shift >= 0; shift -= 4)
    out += "0123456789abcdef"[hash >> static_cast<unsigned>(shift) & 15U];
  return out;
}

}  // namespace

std::string census_host(std::string_view host) {
  std::string out;
  for (const char c : host) out += c >= ' ' && c <= '~' ? c : '?';  // as PostgreSQL does
  if (out.size() <= longest) return out;
  out.resize(longest - 1 - hash_digits);
  return out + "~" + hash_of(host);
}

}  // namespace pgwake
