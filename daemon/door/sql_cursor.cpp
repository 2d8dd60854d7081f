#include "daemon/door/sql_cursor.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace pgwaked::door {
namespace {

// PostgreSQL's key words that are no column's name (its manual, appendix C): the reserved ones, and those
// that may name a type or a function.
constexpr std::array<std::string_view, 99> reserved{"all",
                                                    "analyse",
                                                    "analyze",
                                                    "and",
                                                    "any",
                                                    "array",
                                                    "as",
                                                    "asc",
                                                    "asymmetric",
                                                    "authorization",
                                                    "binary",
                                                    "both",
                                                    "case",
                                                    "cast",
                                                    "check",
                                                    "collate",
                                                    "collation",
                                                    "column",
                                                    "concurrently",
                                                    "constraint",
                                                    "create",
                                                    "cross",
                                                    "current_catalog",
                                                    "current_date",
                                                    "current_role",
                                                    "current_schema",
                                                    "current_time",
                                                    "current_timestamp",
                                                    "current_user",
                                                    "default",
                                                    "deferrable",
                                                    "desc",
                                                    "distinct",
                                                    "do",
                                                    "else",
                                                    "end",
                                                    "except",
                                                    "false",
                                                    "fetch",
                                                    "for",
                                                    "foreign",
                                                    "freeze",
                                                    "from",
                                                    "full",
                                                    "grant",
                                                    "group",
                                                    "having",
                                                    "ilike",
                                                    "in",
                                                    "initially",
                                                    "inner",
                                                    "intersect",
                                                    "into",
                                                    "is",
                                                    "isnull",
                                                    "join",
                                                    "lateral",
                                                    "leading",
                                                    "left",
                                                    "like",
                                                    "limit",
                                                    "localtime",
                                                    "localtimestamp",
                                                    "natural",
                                                    "not",
                                                    "notnull",
                                                    "null",
                                                    "offset",
                                                    "on",
                                                    "only",
                                                    "or",
                                                    "order",
                                                    "outer",
                                                    "overlaps",
                                                    "placing",
                                                    "primary",
                                                    "references",
                                                    "returning",
                                                    "right",
                                                    "select",
                                                    "session_user",
                                                    "similar",
                                                    "some",
                                                    "symmetric",
                                                    "table",
                                                    "tablesample",
                                                    "then",
                                                    "to",
                                                    "trailing",
                                                    "true",
                                                    "union",
                                                    "unique",
                                                    "user",
                                                    "using",
                                                    "variadic",
                                                    "verbose",
                                                    "when",
                                                    "where",
                                                    "window"};

}  // namespace

bool is_reserved(std::string_view word) {
  return word == "with" || std::find(reserved.begin(), reserved.end(), word) != reserved.end();
}

const sql_token& sql_cursor::here(std::size_t ahead) const {
  static const sql_token nothing;
  return ends(ahead) ? nothing : tokens_[at_ + ahead];
}

const sql_token& sql_cursor::next() {
  const auto& token = here();
  if (!ends()) ++at_;
  return token;
}

void sql_cursor::skip(std::size_t tokens) { at_ = std::min(at_ + tokens, end_); }

bool sql_cursor::peek(std::string_view word, std::size_t ahead) const {
  return !ends(ahead) && here(ahead).what == sql_token::kind::word && here(ahead).text == word;
}

bool sql_cursor::peek_symbol(std::string_view text, std::size_t ahead) const {
  return !ends(ahead) && here(ahead).what == sql_token::kind::symbol && here(ahead).text == text;
}

std::string sql_cursor::name() {
  const auto& token = here();
  const bool is_name = token.what == sql_token::kind::name ||
                       (token.what == sql_token::kind::word && !is_reserved(token.text));
  if (!is_name) syntax_error();
  return next().text;
}

void sql_cursor::go_to(std::size_t place) {
  if (!error_) at_ = place;
}

void sql_cursor::fail(sql_error e) {
  if (!error_) error_ = std::move(e);
  at_ = end_;
}

void sql_cursor::syntax_error() {
  const auto where = ends() ? std::string(" at end of input") : " at or near \"" + here().text + "\"";
  fail({"42601", "syntax error" + where, {}});
}

}  // namespace pgwaked::door
