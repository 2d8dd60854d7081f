#pragma once

#include <rapidjson/document.h>

#include <cctype>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace pgwake::test {

/// One line of logfmt, with or without the journal's priority; nothing if it is not one: a word without `=`,
/// a key twice, a quote that is not closed, an escape that JSON has not.
inline std::optional<std::map<std::string, std::string>> logfmt(std::string_view line) {
  std::map<std::string, std::string> out;
  if (!line.empty() && line.back() == '\n') line.remove_suffix(1);
  if (line.size() > 3 && line[0] == '<' && line[2] == '>') line.remove_prefix(3);
  while (!line.empty()) {
    const auto equals = line.find('=');
    if (equals == 0 || equals == std::string_view::npos) return std::nullopt;
    const std::string key(line.substr(0, equals));
    for (const char c : key)
      if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') return std::nullopt;
    line.remove_prefix(equals + 1);
    std::size_t end = 0;
    std::string value;
    if (!line.empty() && line[0] == '"') {
      for (end = 1; end < line.size() && line[end] != '"'; ++end)
        if (line[end] == '\\') ++end;
      if (end >= line.size()) return std::nullopt;
      ++end;
      rapidjson::Document text;
      text.Parse(std::string(line.substr(0, end)).c_str());
      if (!text.IsString()) return std::nullopt;
      value.assign(text.GetString(), text.GetStringLength());
    } else {
      end = std::min(line.find(' '), line.size());
      value = line.substr(0, end);
      if (value.empty() || value.find_first_of("\"=") != std::string::npos) return std::nullopt;
    }
    if (!out.emplace(key, value).second) return std::nullopt;
    if (end < line.size() && (line[end] != ' ' || end + 1 == line.size())) return std::nullopt;
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return out;
}

}  // namespace pgwake::test
