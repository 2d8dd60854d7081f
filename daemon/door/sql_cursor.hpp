#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/door/sql_scanner.hpp"

namespace pgwaked::door {

// One statement's tokens, gone over from left to right. The first error stays, and from then on there are no
// more tokens: whoever reads on comes to its end, and what it made is not used.
class sql_cursor {
 public:
  sql_cursor(const std::vector<sql_token>& tokens, std::size_t begin, std::size_t end)
      : tokens_(tokens), at_(begin), end_(end) {}

  // Past the end: an empty symbol.
  const sql_token& here(std::size_t ahead = 0) const;
  const sql_token& next();
  bool ends(std::size_t ahead = 0) const { return at_ + ahead >= end_; }
  void skip(std::size_t tokens);
  bool peek(std::string_view word, std::size_t ahead = 0) const;
  bool peek_symbol(std::string_view text, std::size_t ahead = 0) const;
  bool take(std::string_view word) { return peek(word) && step(); }
  bool take_symbol(std::string_view text) { return peek_symbol(text) && step(); }
  void need(std::string_view word) {
    if (!take(word)) syntax_error();
  }
  void need_symbol(std::string_view text) {
    if (!take_symbol(text)) syntax_error();
  }
  // A name as columns and channels have it.
  std::string name();

  // To look further, and come back; not after an error.
  std::size_t place() const { return at_; }
  void go_to(std::size_t place);
  void go_to_end() { at_ = end_; }

  void fail(sql_error e);
  void syntax_error();
  const std::optional<sql_error>& error() const { return error_; }

 private:
  bool step() { return ++at_ > 0; }

  const std::vector<sql_token>& tokens_;
  std::size_t at_;
  std::size_t end_;
  std::optional<sql_error> error_;
};

// No column's or channel's name unless it is quoted.
bool is_reserved(std::string_view word);

}  // namespace pgwaked::door
