#include "daemon/doctor/secret_filter.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "common/redact.hpp"
#include "common/secret_spans.hpp"
#include "daemon/settings/toml.hpp"
#include "daemon/terminal/text.hpp"

namespace pgwaked {

using namespace pgwake;

namespace {

constexpr std::size_t shortest = 3;
constexpr std::size_t shortest_guessed = 6;  // `USE_TOKEN=true` is no secret

std::string without_backslashes(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) ++i;
    out += text[i];
  }
  return out;
}

std::string quoted_inside(const std::string& text) {
  const auto quoted = toml::quote(text);
  return quoted.size() >= 2 ? quoted.substr(1, quoted.size() - 2) : quoted;
}

bool names_secret(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const auto has = [&](std::string_view word) { return name.find(word) != name.npos; };
  return (has("PASSWORD") || has("PASSWD") || has("SECRET") || has("TOKEN") || name.ends_with("_KEY")) &&
         !name.ends_with("FILE") && !name.ends_with("PATH");
}

bool may_be_conninfo(const std::string& value) {
  const auto scheme = value.find("://");
  return (scheme != value.npos && value.find('@', scheme) != value.npos) || has_stray_password(value);
}

}  // namespace

void secret_filter::add(std::string_view secret) {
  if (secret.size() < shortest) return;
  const std::string raw(secret);
  for (auto form : {raw, quoted_inside(raw), printable(raw), quoted_inside(printable(raw))})
    if (std::find(forms_.begin(), forms_.end(), form) == forms_.end()) forms_.push_back(std::move(form));
}

void secret_filter::add_conninfo(const std::string& conninfo) {
  for (const auto& span : secrets_of(conninfo)) {
    const auto raw = std::string_view(conninfo).substr(span.begin, span.end - span.begin);
    add(raw);
    add(percent_decoded(raw));
    add(without_backslashes(raw));
  }
}

void secret_filter::add_environment(const std::vector<std::pair<std::string, std::string>>& environment) {
  for (const auto& [name, value] : environment) {
    if (name == "PGPASSWORD" || (names_secret(name) && value.size() >= shortest_guessed)) add(value);
    if (may_be_conninfo(value)) add_conninfo(value);
  }
}

void secret_filter::add_passfile(std::string_view content) {
  std::istringstream lines{std::string(content)};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    if (line.ends_with('\r')) line.pop_back();
    // host:port:database:user:password, where `\:` is no separator.
    std::size_t at = 0;
    for (int separators = 0; at < line.size() && separators < 4; ++at) {
      if (line[at] == '\\')
        ++at;
      else if (line[at] == ':')
        ++separators;
    }
    if (at >= line.size()) continue;
    add(line.substr(at));
    add(without_backslashes(line.substr(at)));
  }
}

std::string secret_filter::operator()(std::string_view text) const {
  // All at once: what one replacement cut in two would not be found by the next.
  secret_spans found;
  for (const auto& form : forms_)
    for (auto at = text.find(form); at != text.npos; at = text.find(form, at + 1))
      found.push_back({at, at + form.size()});
  std::string out;
  std::size_t copied = 0;
  for (const auto& span : in_order(std::move(found))) {
    out += text.substr(copied, span.begin - copied);
    out += hidden;
    copied = span.end;
  }
  return out += text.substr(copied);
}

}  // namespace pgwaked
