#include "common/log_fields.hpp"

#include <algorithm>

#include "common/json_text.hpp"
#include "common/unicode.hpp"

namespace pgwake {
namespace {

bool is_plain(std::string_view value) {
  return !value.empty() && std::all_of(value.begin(), value.end(), [](char c) {
    return c > ' ' && c < 0x7f && c != '"' && c != '=' && c != '\\';
  });
}

}  // namespace

log_fields& log_fields::add(std::string_view key, std::string_view text) {
  auto end = std::min(text.size(), max_value);
  // At a character's border: no more than three continuation bytes are given up.
  for (int i = 0; i < 3 && end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U; ++i)
    --end;
  std::string value(text.substr(0, end));
  if (end < text.size()) value += "...";
  fields_.push_back({key, std::move(value), false});
  return *this;
}

log_fields& log_fields::add(std::string_view key, bool truth) {
  fields_.push_back({key, truth ? "true" : "false", true});
  return *this;
}

void append_logfmt(std::string& out, std::string_view key, std::string_view value) {
  if (!out.empty()) out += ' ';
  out.append(key).append("=");
  if (is_plain(value))
    out += value;
  else if (is_utf8(value))
    append_json_string(out, value);
  else
    append_json_string(out, replace_bad_utf8(value));
}

std::string to_string(const log_fields& fields) {
  std::string out;
  for (const auto& f : fields.list()) append_logfmt(out, f.key, f.value);
  return out;
}

}  // namespace pgwake
