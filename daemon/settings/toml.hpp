#pragma once

#include <boost/system/result.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// A strict reader of the flat part of TOML 1.0 that a settings file needs: comments, and `key = value`
// where a value is a one-line string, a decimal integer, a boolean, or an array of strings. Everything
// else (tables, dotted keys, dates, floats, multi-line strings, duplicate keys) is an error that says
// what is accepted.
namespace pgwaked::toml {

using value_type = std::variant<std::string, std::int64_t, bool, std::vector<std::string>>;

struct entry {
  std::string key;
  value_type value;
  int line = 0;  // of the key; the first line is 1
};

struct error {
  int line = 0;
  std::string message;
  std::string key;  // set where that is all that is wrong: the value of `key` is a word without quotes
};

struct document {
  std::vector<entry> entries;
  std::vector<error> errors;  // of every line that cannot be read, up to 20
};

// Pure; any bytes are allowed. Strings come out as valid UTF-8 without NUL.
document read(std::string_view text);
// The same, or the first error.
boost::system::result<std::vector<entry>, error> parse(std::string_view text);

// `text` as a TOML basic string, quotes included.
std::string quote(std::string_view text);

}  // namespace pgwaked::toml
