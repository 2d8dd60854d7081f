#include "daemon/settings/toml.hpp"

#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "common/unicode.hpp"

namespace pgwaked::toml {
namespace {

constexpr std::string_view accepted =
    "a value is \"text\", 'text', a whole number, true, false, or [\"text\", \"text\"]";

bool is_bare(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t') || byte == 0x7f;
}

void append_utf8(std::string& out, std::uint32_t point) {
  const auto put = [&out](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xC0 | (point >> 6));
    put(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    put(0xE0 | (point >> 12));
    put(0x80 | ((point >> 6) & 0x3F));
    put(0x80 | (point & 0x3F));
  } else {
    put(0xF0 | (point >> 18));
    put(0x80 | ((point >> 12) & 0x3F));
    put(0x80 | ((point >> 6) & 0x3F));
    put(0x80 | (point & 0x3F));
  }
}

constexpr std::size_t most_errors = 20;

// Each step either moves `at_` on or sets `error_`, which ends the statement. A step returns false on error.
class parser {
 public:
  explicit parser(std::string_view text) : text_(text) {}

  document run() {
    if (!check_bytes()) return {{}, {*error_}};
    while (at_ < text_.size() && errors_.size() < most_errors) {
      in_array_ = false;
      if (statement()) continue;
      errors_.push_back(*std::exchange(error_, std::nullopt));
      resume();
    }
    return {std::move(entries_), std::move(errors_)};
  }

 private:
  bool check_bytes() {
    if (text_.substr(0, 3) == "\xEF\xBB\xBF") text_.remove_prefix(3);
    std::size_t begin = 0;
    for (int number = 1; begin < text_.size(); ++number) {
      const std::size_t end = std::min(text_.find('\n', begin), text_.size());
      const std::string_view one = text_.substr(begin, end - begin);
      if (one.find('\0') != one.npos) return fail(number, "there is a NUL byte; this is not a text file");
      if (!pgwake::is_utf8(one)) return fail(number, "this line is not UTF-8; save the file as UTF-8");
      begin = end + 1;
    }
    return true;
  }

  // After an error: goes to the next line, or behind what may be the rest of an array. An array whose end is
  // missing is noticed in the line of the next setting, which is then read.
  void resume() {
    const auto begin = text_.rfind('\n', at_ == 0 ? 0 : at_ - 1);
    if (in_array_ && line_ > statement_line_ && begin != text_.npos && is_setting(begin + 1)) {
      at_ = begin + 1;
      return;
    }
    do {
      const auto end = text_.find('\n', at_);
      at_ = end == text_.npos ? text_.size() : end + 1;
      if (end != text_.npos) ++line_;
    } while (in_array_ && at_ < text_.size() && !is_setting(at_));
  }

  // Whether the line that begins there looks like `key = ...`.
  bool is_setting(std::size_t at) const {
    const auto skip = [&](auto&& wanted) {
      const auto begin = at;
      while (at < text_.size() && wanted(text_[at])) ++at;
      return at > begin;
    };
    const auto blank = [](char c) { return c == ' ' || c == '\t'; };
    skip(blank);
    if (!skip(is_bare)) return false;
    skip(blank);
    return at < text_.size() && text_[at] == '=';
  }

  // One line: blank, a comment, or `key = value`.
  bool statement() {
    skip_blanks();
    if (at_end_of_line()) return end_of_line();
    if (peek() == '[') return fail("tables ([name]) are not accepted; write key = value at the top level");
    entry next;
    next.line = statement_line_ = line_;
    if (!key(next.key)) return false;
    skip_blanks();
    if (peek() == '.') return fail("dotted keys are not accepted; write key = value");
    if (peek() != '=') return fail("'=' is missing after " + next.key + "; write " + next.key + " = value");
    ++at_;
    skip_blanks();
    const auto [known, added] = seen_.emplace(next.key, next.line);
    if (!added) {
      return fail(next.line,
                  next.key + " is set twice; it was first set in line " + std::to_string(known->second));
    }
    key_ = next.key;
    if (!value(next.value)) return false;
    skip_blanks();
    if (!at_end_of_line())
      return fail("there is something after the value of " + next.key + "; one setting a line");
    entries_.push_back(std::move(next));
    return end_of_line();
  }

  bool key(std::string& out) {
    if (peek() == '"' || peek() == '\'') {
      if (!text_value(out)) return false;
      if (out.empty()) return fail("a key may not be empty");
      return true;
    }
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_bare(text_[at_])) ++at_;
    out = text_.substr(begin, at_ - begin);
    if (out.empty()) return fail("this is no setting; write key = value, and # before a comment");
    return true;
  }

  bool value(value_type& out) {
    const char c = peek();
    if (c == '"' || c == '\'') {
      std::string text;
      if (!text_value(text)) return false;
      out = std::move(text);
      return true;
    }
    if (c == '[') {
      std::vector<std::string> list;
      if (!array(list)) return false;
      out = std::move(list);
      return true;
    }
    if (c == '{') return fail("inline tables are not accepted; " + std::string(accepted));
    return word(out);
  }

  // true, false, an integer, or something that lacks its quotes.
  bool word(value_type& out) {
    const std::size_t begin = at_;
    while (!at_end_of_line() && peek() != ' ' && peek() != '\t' && peek() != ',' && peek() != ']') ++at_;
    const std::string_view text = text_.substr(begin, at_ - begin);
    if (text.empty()) return fail("the value is missing; " + std::string(accepted));
    if (text == "true" || text == "false") {
      out = text == "true";
      return true;
    }
    if (const auto number = integer(text)) {
      out = *number;
      return true;
    }
    if (error_) return false;
    // Not what it is: it may be a connection string with a password.
    fail("a text must be quoted: write " + key_ + " = \"...\" (" + std::string(accepted) + ")");
    error_->key = key_;
    return false;
  }

  // nullopt with error_ set where `text` is clearly a number, though not an acceptable one.
  std::optional<std::int64_t> integer(std::string_view text) {
    const bool negative = text.front() == '-';
    std::string_view digits = text;
    if (negative || text.front() == '+') digits.remove_prefix(1);
    if (digits.empty() || digits.find_first_not_of("0123456789_") != digits.npos) return std::nullopt;
    if (digits.front() == '_' || digits.back() == '_' || digits.find("__") != digits.npos) {
      fail("an underscore in a number stands between two digits");
      return std::nullopt;
    }
    if (digits.size() > 1 && digits.front() == '0') {
      fail("a number may not begin with 0; a socket mode is quoted, such as \"0660\"");
      return std::nullopt;
    }
    // Counted downwards, since there is one negative number more than there are positive ones.
    std::int64_t number = 0;
    for (const char c : digits) {
      if (c == '_') continue;
      if (__builtin_mul_overflow(number, 10, &number) || __builtin_sub_overflow(number, c - '0', &number)) {
        fail("the number is too large");
        return std::nullopt;
      }
    }
    if (!negative && __builtin_sub_overflow(std::int64_t{0}, number, &number)) {
      fail("the number is too large");
      return std::nullopt;
    }
    return number;
  }

  bool array(std::vector<std::string>& out) {
    const int opened = line_;
    in_array_ = true;
    ++at_;
    while (skip_lines()) {
      if (at_ == text_.size()) return fail(opened, "the array that begins here has no closing ]");
      if (peek() == ']') {
        ++at_;
        in_array_ = false;
        return true;
      }
      if (peek() != '"' && peek() != '\'')
        return fail("an array holds quoted texts alone: [\"text\", \"text\"]");
      std::string item;
      if (!text_value(item)) return false;
      out.push_back(std::move(item));
      if (!skip_lines()) return false;
      if (peek() == ',') {
        ++at_;
      } else if (at_ < text_.size() && peek() != ']') {
        return fail("a comma is missing between two texts of the array");
      }
    }
    return false;
  }

  bool text_value(std::string& out) {
    const char quote_mark = peek();
    if (text_.substr(at_, 3) == std::string(3, quote_mark)) {
      return fail("multi-line strings are not accepted; write the text in one line, with \\n for a line end");
    }
    ++at_;
    while (at_ < text_.size() && peek() != quote_mark) {
      const char c = peek();
      if (c == '\n' || c == '\r') break;
      if (is_control(c))
        return fail("there is a control character in the text; write \\u and its four hexadecimal digits");
      ++at_;
      if (c == '\\' && quote_mark == '"') {
        if (!escape(out)) return false;
      } else {
        out.push_back(c);
      }
    }
    if (peek() != quote_mark)
      return fail(std::string("the closing ") + quote_mark + " of the text is missing in this line");
    ++at_;
    return true;
  }

  bool escape(std::string& out) {
    constexpr std::string_view letters = "btnfr\"\\";
    constexpr std::string_view meant = "\b\t\n\f\r\"\\";
    const char c = peek();
    const std::size_t which = letters.find(c);
    if (at_ < text_.size() && which != letters.npos) {
      ++at_;
      out.push_back(meant[which]);
      return true;
    }
    if (c != 'u' && c != 'U') {
      return fail(
          "after a backslash comes one of b t n f r \" \\ u U; for a plain backslash write \\\\, or use "
          "'...'");
    }
    const std::size_t length = c == 'u' ? 4 : 8;
    std::uint32_t point = 0;
    const std::string_view digits = text_.substr(at_ + 1, length);
    for (const char digit : digits) {
      const std::size_t number = std::string_view("0123456789abcdef0123456789ABCDEF").find(digit);
      if (number == std::string_view::npos) return fail("\\u takes four and \\U eight hexadecimal digits");
      point = point * 16 + static_cast<std::uint32_t>(number % 16);
    }
    if (digits.size() != length) return fail("\\u takes four and \\U eight hexadecimal digits");
    if (point == 0) return fail("\\u0000 (NUL) is not accepted in a text");
    if (point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF))
      return fail("this \\u escape is no character");
    at_ += 1 + length;
    append_utf8(out, point);
    return true;
  }

  // Blanks, comments and line ends, as between the parts of an array.
  bool skip_lines() {
    skip_blanks();
    while (at_ < text_.size() && at_end_of_line()) {
      if (!end_of_line()) return false;
      skip_blanks();
    }
    return true;
  }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }

  // '\0' at the end: check_bytes() has made sure that the text itself has none.
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  bool at_end_of_line() const {
    const char c = peek();
    return c == '\0' || c == '\n' || c == '\r' || c == '#';
  }

  // Takes a comment, if there is one, and the line end.
  bool end_of_line() {
    while (at_ < text_.size() && peek() != '\n') {
      const char c = peek();
      if (c == '\r' && text_.substr(at_ + 1, 1) == "\n") {
        ++at_;
        break;
      }
      if (is_control(c)) return fail("there is a control character in the line");
      ++at_;
    }
    if (at_ < text_.size()) {
      ++at_;
      ++line_;
    }
    return true;
  }

  bool fail(std::string message) { return fail(line_, std::move(message)); }
  bool fail(int line, std::string message) {
    if (!error_) error_ = error{line, std::move(message), ""};
    return false;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  int statement_line_ = 1;  // where the statement at hand begins
  bool in_array_ = false;
  std::vector<entry> entries_;
  std::vector<error> errors_;
  std::string key_;  // of the statement at hand
  std::map<std::string, int> seen_;
  std::optional<error> error_;
};

}  // namespace

document read(std::string_view text) { return parser(text).run(); }

boost::system::result<std::vector<entry>, error> parse(std::string_view text) {
  auto all = read(text);
  if (!all.errors.empty()) return std::move(all.errors.front());
  return std::move(all.entries);
}

std::string quote(std::string_view text) {
  constexpr std::string_view hex = "0123456789ABCDEF";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\u00";
      out += hex[byte >> 4];
      out += hex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace pgwaked::toml
