#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pgwake {

// The fields of one log line, in their order. Values are texts as they came, whoever chose them: each is
// quoted when it is written, so that none can end its field and begin another, and cut at `max_value` bytes,
// so that a line has a bound.
class log_fields {
 public:
  static constexpr std::size_t max_value = 1'024;

  struct field {
    std::string_view key;
    std::string value;
    bool bare;  // a number or a truth value
  };

  // `key`: a word that lives as long as the program.
  log_fields& add(std::string_view key, std::string_view text);
  // Without this a literal would be a truth value.
  log_fields& add(std::string_view key, const char* text) { return add(key, std::string_view(text)); }
  log_fields& add(std::string_view key, bool truth);
  template <std::integral Number>
  log_fields& add(std::string_view key, Number number) {
    fields_.push_back({key, std::to_string(number), true});
    return *this;
  }

  const std::vector<field>& list() const { return fields_; }
  bool empty() const { return fields_.empty(); }

 private:
  std::vector<field> fields_;
};

// logfmt: `key=value key="a value"`. A value that is more than a plain word stands in double quotes, with
// JSON's escapes; what is not UTF-8 becomes U+FFFD.
std::string to_string(const log_fields& fields);
void append_logfmt(std::string& out, std::string_view key, std::string_view value);

}  // namespace pgwake
