#include "daemon/door/sql_scanner.hpp"

#include <cstdint>
#include <utility>

namespace pgwaked::door {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool begins_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool goes_on_in_word(char c) { return begins_word(c) || is_digit(c) || c == '$'; }
bool is_operator(char c) { return std::string_view("~!@#^&|`?+-*/%<>=").find(c) != std::string_view::npos; }
char folded(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  const char f = folded(c);
  return f >= 'a' && f <= 'f' ? f - 'a' + 10 : -1;
}

// False: not a character that UTF-8 can have, or NUL, which no text of PostgreSQL holds.
bool append_character(std::string& out, std::uint32_t c) {
  if (c == 0 || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) return false;
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0U | (c >> 6U));
    out += static_cast<char>(0x80U | (c & 0x3FU));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0U | (c >> 12U));
    out += static_cast<char>(0x80U | ((c >> 6U) & 0x3FU));
    out += static_cast<char>(0x80U | (c & 0x3FU));
  } else {
    out += static_cast<char>(0xF0U | (c >> 18U));
    out += static_cast<char>(0x80U | ((c >> 12U) & 0x3FU));
    out += static_cast<char>(0x80U | ((c >> 6U) & 0x3FU));
    out += static_cast<char>(0x80U | (c & 0x3FU));
  }
  return true;
}

sql_error syntax(std::string message, std::string hint = {}) {
  return {"42601", std::move(message), std::move(hint)};
}

class scanner {
 public:
  scanner(std::string_view sql, bool backslashes) : sql_(sql), backslashes_(backslashes) {}

  scanned run() {
    while (!out_.error) {
      skip_blanks();
      if (out_.error || at_ == sql_.size()) break;
      one();
    }
    return std::move(out_);
  }

 private:
  using kind = sql_token::kind;

  char here(std::size_t ahead = 0) const { return at_ + ahead < sql_.size() ? sql_[at_ + ahead] : '\0'; }
  bool looking_at(std::string_view text) const { return sql_.substr(at_).starts_with(text); }
  void fail(sql_error e) { out_.error = std::move(e); }
  void add(kind what, std::string text, std::size_t begin) {
    out_.tokens.push_back({what, std::move(text), begin});
  }

  void skip_blanks() {
    while (at_ < sql_.size()) {
      if (is_space(here())) {
        ++at_;
      } else if (looking_at("--")) {
        while (at_ < sql_.size() && here() != '\n' && here() != '\r') ++at_;
      } else if (looking_at("/*")) {
        if (!skip_comment()) return fail(syntax("unterminated /* comment"));
      } else {
        return;
      }
    }
  }

  // They nest.
  bool skip_comment() {
    std::size_t depth = 0;
    while (at_ < sql_.size()) {
      if (looking_at("/*")) {
        ++depth;
        at_ += 2;
      } else if (looking_at("*/")) {
        at_ += 2;
        if (--depth == 0) return true;
      } else {
        ++at_;
      }
    }
    return false;
  }

  void one() {
    const char c = here();
    const char next = here(1);
    const char f = folded(c);
    if (c == '\'') return quoted_string(0, backslashes_);
    if (next == '\'' && (f == 'e' || f == 'n')) return quoted_string(1, f == 'e' || backslashes_);
    if (next == '\'' && (f == 'b' || f == 'x')) return bit_string();
    if (f == 'u' && next == '&' && here(2) == '\'') return unicode_string();
    if (f == 'u' && next == '&' && here(2) == '"') return unicode_name();
    if (c == '"') return quoted_name();
    if (c == '$' && is_digit(next)) return parameter();
    if (c == '$') return dollar_quoted();
    if (begins_word(c)) return word();
    if (is_digit(c) || (c == '.' && is_digit(next))) return number();
    symbol();
  }

  void word() {
    const auto begin = at_;
    std::string text;
    while (at_ < sql_.size() && goes_on_in_word(here())) text += folded(sql_[at_++]);
    add(kind::word, std::move(text), begin);
  }

  void parameter() {
    const auto begin = at_++;
    std::string digits;
    while (is_digit(here())) digits += sql_[at_++];
    add(kind::parameter, std::move(digits), begin);
  }

  void number() {
    const auto begin = at_;
    while (is_digit(here())) ++at_;
    if (here() == '.' && here(1) != '.') {
      ++at_;
      while (is_digit(here())) ++at_;
    }
    const std::size_t sign = here(1) == '+' || here(1) == '-' ? 1 : 0;
    if (folded(here()) == 'e' && is_digit(here(1 + sign))) {
      at_ += 2 + sign;
      while (is_digit(here())) ++at_;
    }
    if (begins_word(here()))
      return fail(syntax("trailing junk after numeric literal at or near \"" +
                         std::string(sql_.substr(begin, at_ - begin + 1)) + "\""));
    add(kind::number, std::string(sql_.substr(begin, at_ - begin)), begin);
  }

  void symbol() {
    const auto begin = at_;
    if (looking_at("::") || looking_at(":=") || looking_at("..")) {
      at_ += 2;
    } else if (is_operator(here())) {
      // An operator ends where a comment begins.
      while (at_ < sql_.size() && is_operator(here()) && !looking_at("--") && !looking_at("/*")) ++at_;
    } else {
      ++at_;
    }
    add(kind::symbol, std::string(sql_.substr(begin, at_ - begin)), begin);
  }

  // The raw text up to the closing quote, doubled ones made single; the quote at `at_` is taken.
  bool until_quote(char quote, std::string& text) {
    ++at_;
    while (at_ < sql_.size()) {
      const char c = sql_[at_++];
      if (c != quote) {
        text += c;
      } else if (here() == quote) {
        text += quote;
        ++at_;
      } else {
        return true;
      }
    }
    return false;
  }

  // 'a' and, after white space with a line break in it, 'b' are one constant.
  bool continues() {
    auto look = at_;
    bool broken = false;
    while (look < sql_.size()) {
      if (is_space(sql_[look])) {
        broken = broken || sql_[look] == '\n' || sql_[look] == '\r';
        ++look;
      } else if (broken && sql_.substr(look).starts_with("--")) {
        while (look < sql_.size() && sql_[look] != '\n' && sql_[look] != '\r') ++look;
      } else {
        break;
      }
    }
    if (!broken || look == sql_.size() || sql_[look] != '\'') return false;
    at_ = look;
    return true;
  }

  void quoted_string(std::size_t prefix, bool escapes) {
    const auto begin = at_;
    at_ += prefix;
    std::string text;
    do {
      if (!(escapes ? escaped_part(text) : until_quote('\'', text))) {
        if (!out_.error) fail(syntax("unterminated quoted string at or near \"" + rest(begin) + "\""));
        return;
      }
    } while (continues());
    add(kind::string, std::move(text), begin);
  }

  bool escaped_part(std::string& text) {
    ++at_;
    while (at_ < sql_.size()) {
      const char c = sql_[at_++];
      if (c == '\'') {
        if (here() != '\'') return true;
        text += '\'';
        ++at_;
      } else if (c == '\\') {
        if (at_ == sql_.size()) return false;
        if (!escape(text)) return false;
      } else {
        text += c;
      }
    }
    return false;
  }

  // What stands behind the backslash.
  bool escape(std::string& text) {
    const char c = sql_[at_++];
    static constexpr std::string_view letters = "bfnrtv";
    static constexpr std::string_view meanings = "\b\f\n\r\t\v";
    if (const auto i = letters.find(c); i != std::string_view::npos) {
      text += meanings[i];
    } else if (c >= '0' && c <= '7') {
      --at_;
      return byte(text, 8, 3);
    } else if (c == 'x' && hex_value(here()) >= 0) {
      return byte(text, 16, 2);
    } else if (c == 'u' || c == 'U') {
      return character(text, c == 'u' ? 4 : 8);
    } else {
      text += c;
    }
    return true;
  }

  bool byte(std::string& text, int base, int most) {
    int value = 0;
    for (int i = 0; i < most && hex_value(here()) >= 0 && hex_value(here()) < base; ++i)
      value = value * base + hex_value(sql_[at_++]);
    value &= 0xFF;
    if (value == 0) {
      fail({"22021", "invalid byte sequence for encoding \"UTF8\": 0x00", {}});
      return false;
    }
    text += static_cast<char>(value);
    return true;
  }

  bool hex_digits(int count, std::uint32_t& value) {
    value = 0;
    for (int i = 0; i < count; ++i, ++at_) {
      if (hex_value(here()) < 0) return false;
      value = value * 16 + static_cast<std::uint32_t>(hex_value(here()));
    }
    return true;
  }

  bool character(std::string& text, int digits) {
    std::uint32_t value = 0;
    if (!hex_digits(digits, value)) {
      fail({"22025", "invalid Unicode escape", "Unicode escapes must be \\uXXXX or \\UXXXXXXXX."});
      return false;
    }
    if (value >= 0xD800 && value <= 0xDBFF) {
      std::uint32_t second = 0;
      const bool small = looking_at("\\u");
      if (!small && !looking_at("\\U")) return bad_pair();
      at_ += 2;
      if (!hex_digits(small ? 4 : 8, second) || second < 0xDC00 || second > 0xDFFF) return bad_pair();
      value = 0x10000 + ((value - 0xD800) << 10U) + (second - 0xDC00);
    } else if (value >= 0xDC00 && value <= 0xDFFF) {
      return bad_pair();
    }
    if (append_character(text, value)) return true;
    fail(syntax("invalid Unicode escape value"));
    return false;
  }

  bool bad_pair() {
    fail(syntax("invalid Unicode surrogate pair"));
    return false;
  }

  void bit_string() {
    const auto begin = at_++;
    std::string text;
    if (!until_quote('\'', text)) return fail(syntax("unterminated bit string literal"));
    add(kind::bits, std::move(text), begin);
  }

  void quoted_name() {
    const auto begin = at_;
    std::string text;
    if (!until_quote('"', text))
      return fail(syntax("unterminated quoted identifier at or near \"" + rest(begin) + "\""));
    if (text.empty()) return fail(syntax("zero-length delimited identifier at or near \"\"\"\""));
    add(kind::name, std::move(text), begin);
  }

  void unicode_name() {
    const auto begin = at_;
    at_ += 2;
    std::string raw;
    if (!until_quote('"', raw)) return fail(syntax("unterminated quoted identifier"));
    if (raw.empty()) return fail(syntax("zero-length delimited identifier"));
    unicode(kind::name, raw, begin);
  }

  void unicode_string() {
    const auto begin = at_;
    if (backslashes_)
      return fail(
          {"0A000", "unsafe use of string constant with Unicode escapes",
           "String constants with Unicode escapes cannot be used when standard_conforming_strings is off."});
    at_ += 2;
    std::string raw;
    do {
      if (!until_quote('\'', raw)) return fail(syntax("unterminated quoted string"));
    } while (continues());
    unicode(kind::string, raw, begin);
  }

  void unicode(kind what, std::string_view raw, std::size_t begin) {
    char escape = '\\';
    if (!take_uescape(escape)) return;
    std::string text;
    std::uint32_t first_half = 0;
    for (std::size_t i = 0; i < raw.size();) {
      if (raw[i] != escape || raw.substr(i + 1).starts_with(escape)) {
        if (first_half != 0) return fail(syntax("invalid Unicode surrogate pair"));
        text += raw[i];
        i += raw[i] == escape ? 2 : 1;
        continue;
      }
      const bool long_form = raw.substr(i + 1).starts_with('+');
      const std::size_t digits = long_form ? 6 : 4;
      i += long_form ? 2 : 1;
      std::uint32_t value = 0;
      for (std::size_t d = 0; d < digits; ++d, ++i) {
        if (i >= raw.size() || hex_value(raw[i]) < 0)
          return fail(syntax("invalid Unicode escape", "Unicode escapes must be \\XXXX or \\+XXXXXX."));
        value = value * 16 + static_cast<std::uint32_t>(hex_value(raw[i]));
      }
      const bool second_half = value >= 0xDC00 && value <= 0xDFFF;
      if (second_half != (first_half != 0)) return fail(syntax("invalid Unicode surrogate pair"));
      if (second_half) {
        value = 0x10000 + ((first_half - 0xD800) << 10U) + (value - 0xDC00);
        first_half = 0;
      } else if (value >= 0xD800 && value <= 0xDBFF) {
        first_half = value;
        continue;
      }
      if (!append_character(text, value)) return fail(syntax("invalid Unicode escape value"));
    }
    if (first_half != 0) return fail(syntax("invalid Unicode surrogate pair"));
    add(what, std::move(text), begin);
  }

  // UESCAPE 'c', if it stands there.
  bool take_uescape(char& escape) {
    const auto back = at_;
    skip_blanks();
    if (out_.error) return false;
    std::string ahead;
    for (std::size_t i = 0; i < 7; ++i) ahead += folded(here(i));
    if (ahead != "uescape" || goes_on_in_word(here(7))) {
      at_ = back;
      return true;
    }
    at_ += 7;
    skip_blanks();
    std::string text;
    if (here() != '\'' || !until_quote('\'', text) || text.size() != 1 || hex_value(text[0]) >= 0 ||
        text[0] == '+' || text[0] == '"' || is_space(text[0])) {
      if (!out_.error) fail(syntax("invalid Unicode escape character"));
      return false;
    }
    escape = text[0];
    return true;
  }

  void dollar_quoted() {
    const auto begin = at_;
    auto end = at_ + 1;
    if (end < sql_.size() && begins_word(sql_[end]))
      while (end < sql_.size() && sql_[end] != '$' && goes_on_in_word(sql_[end])) ++end;
    if (end >= sql_.size() || sql_[end] != '$') return symbol();
    const auto tag = sql_.substr(at_, end + 1 - at_);
    const auto close = sql_.find(tag, end + 1);
    if (close == std::string_view::npos)
      return fail(syntax("unterminated dollar-quoted string at or near \"" + rest(begin) + "\""));
    at_ = close + tag.size();
    add(kind::string, std::string(sql_.substr(end + 1, close - end - 1)), begin);
  }

  std::string rest(std::size_t begin) const { return std::string(sql_.substr(begin)); }

  std::string_view sql_;
  bool backslashes_;
  std::size_t at_ = 0;
  scanned out_;
};

}  // namespace

scanned scan_sql(std::string_view sql, bool backslashes) { return scanner(sql, backslashes).run(); }

}  // namespace pgwaked::door
