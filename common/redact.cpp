#include "common/redact.hpp"

#include <algorithm>
#include <vector>

#include "common/secret_spans.hpp"

namespace pgwake {
namespace {

std::string masked(std::string_view text, const secret_spans& all) {
  std::string out;
  std::size_t copied = 0;
  for (const secret_span& secret : all) {
    out += text.substr(copied, secret.begin - copied);
    out += hidden;
    copied = secret.end;
  }
  return out += text.substr(copied);
}

std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) ++i;
    out += text[i];
  }
  return out;
}

void add_parts(std::vector<std::string>& out, std::string_view secret) {
  constexpr std::size_t shortest = 3;
  if (secret.size() >= shortest) out.emplace_back(secret);
  for (std::size_t begin = 0; begin < secret.size();) {
    const std::size_t end = std::min(secret.find_first_of("@/?:&=#;,'\" \t\r\n", begin), secret.size());
    const auto part = secret.substr(begin, end - begin);
    if (part.size() >= shortest && !is_keyword(part)) out.emplace_back(part);
    begin = end + 1;
  }
}

// What libpq quotes may come from a variable (PGHOST), of which the connection string knows nothing.
std::string without_strays(std::string text) {
  const std::size_t scheme = text.find("://");
  const std::size_t at = text.rfind('@');
  if (at != text.npos && scheme < at) text.replace(scheme + 3, at - scheme - 3, hidden);
  if (const std::size_t from = find_assigned_secret(text); from < text.size())
    text.replace(from, text.npos, hidden);
  for (std::size_t open = text.find('"'); open != text.npos;) {
    const std::size_t close = text.find('"', open + 1);
    if (close == text.npos) break;
    const auto piece = hide_in_value(std::string_view(text).substr(open + 1, close - open - 1));
    text.replace(open + 1, close - open - 1, piece);
    open = text.find('"', open + piece.size() + 2);
  }
  return text;
}

}  // namespace

std::string hide_password(std::string_view conninfo) { return masked(conninfo, secrets_of(conninfo)); }

std::string hide_in_value(std::string_view value) { return masked(value, strays_in(value)); }

bool has_password(std::string_view conninfo) { return !secrets_of(conninfo).empty(); }

bool has_stray_password(std::string_view value) {
  return find_assigned_secret(value) != std::string_view::npos;
}

std::string hide_secrets_in(std::string_view text, std::string_view conninfo) {
  std::vector<std::string> parts;
  for (const secret_span& secret : secrets_of(conninfo)) {
    const std::string_view raw = conninfo.substr(secret.begin, secret.end - secret.begin);
    add_parts(parts, raw);
    add_parts(parts, percent_decoded(raw));
    add_parts(parts, unescaped(raw));
  }
  // All at once: what one replacement cut in two would not be found by the next.
  secret_spans found;
  for (const std::string& part : parts)
    for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1))
      found.push_back({at, at + part.size()});
  return without_strays(masked(text, in_order(std::move(found))));
}

}  // namespace pgwake
