#include "daemon/door/query_parser.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace pgwaked::door {
namespace {

using kind = sql_token::kind;

constexpr std::size_t most_nested = 100;

// Functions that a session may ask about itself: how many arguments they take.
struct known_function {
  std::string_view name;
  std::size_t least;
  std::size_t most;
};
constexpr std::array<known_function, 14> functions{{{"version", 0, 0},
                                                    {"current_schema", 0, 0},
                                                    {"current_database", 0, 0},
                                                    {"current_catalog", 0, 0},
                                                    {"current_user", 0, 0},
                                                    {"session_user", 0, 0},
                                                    {"user", 0, 0},
                                                    {"current_role", 0, 0},
                                                    {"pg_backend_pid", 0, 0},
                                                    {"pg_is_in_recovery", 0, 0},
                                                    {"pg_advisory_unlock_all", 0, 0},
                                                    {"current_setting", 1, 2},
                                                    {"set_config", 3, 3},
                                                    {"coalesce", 1, 100}}};

const known_function* function_named(std::string_view name) {
  const auto* it =
      std::find_if(functions.begin(), functions.end(), [&](const auto& f) { return f.name == name; });
  return it == functions.end() ? nullptr : it;
}

// Those that SQL writes without parentheses.
bool is_bare_function(std::string_view name) {
  static constexpr std::array<std::string_view, 6> bare{
      "current_schema", "current_catalog", "current_user", "session_user", "user", "current_role"};
  return std::find(bare.begin(), bare.end(), name) != bare.end();
}

std::string cast_of(std::string_view type) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 13> types{{{"text", "text"},
                                                                                        {"varchar", "text"},
                                                                                        {"name", "name"},
                                                                                        {"int", "int4"},
                                                                                        {"integer", "int4"},
                                                                                        {"int4", "int4"},
                                                                                        {"bigint", "int8"},
                                                                                        {"int8", "int8"},
                                                                                        {"bool", "bool"},
                                                                                        {"boolean", "bool"},
                                                                                        {"oid", "oid"},
                                                                                        {"regclass", ""},
                                                                                        {"regtype", ""}}};
  for (const auto& [name, made] : types)
    if (name == type) return std::string(made);
  return {};
}

}  // namespace

statement query_parser::select() {
  if (auto s = channels_query()) return std::move(*s);
  if (auto s = types_query()) return std::move(*s);
  select_values s;
  if (!c_.ends()) {
    do s.columns.push_back(column());
    while (c_.take_symbol(","));
  }
  if (!c_.ends()) c_.fail(unsupported("this query"));
  return s;
}

// pg_listening_channels(), qualified or not; goes no step if it is something else.
bool query_parser::take_channels_call() {
  const auto back = c_.place();
  if (c_.peek("pg_catalog") && c_.peek_symbol(".", 1)) c_.skip(2);
  if (c_.take("pg_listening_channels") && c_.take_symbol("(") && c_.take_symbol(")")) return true;
  c_.go_to(back);
  return false;
}

std::string query_parser::alias(std::string otherwise) {
  if (c_.take("as")) {
    if (c_.ends() || (c_.here().what != kind::name && c_.here().what != kind::word)) c_.syntax_error();
    return c_.next().text;
  }
  if (!c_.ends() &&
      (c_.here().what == kind::name || (c_.here().what == kind::word && !is_reserved(c_.here().text))))
    return c_.next().text;
  return otherwise;
}

std::optional<statement> query_parser::channels_query() {
  const auto begin = c_.place();
  if (take_channels_call()) {
    auto column = alias("pg_listening_channels");
    if (c_.ends()) return select_channels{std::move(column)};
  }
  c_.go_to(begin);
  if (c_.take_symbol("*") && c_.take("from") && take_channels_call()) {
    auto column = alias("pg_listening_channels");
    if (c_.ends()) return select_channels{std::move(column)};
  }
  c_.go_to(begin);
  if (c_.take("exists") && c_.take_symbol("(")) {
    if (auto s = exists_query()) return s;
  }
  c_.go_to(begin);
  return std::nullopt;
}

std::optional<statement> query_parser::exists_query() {
  if (!c_.take("select")) return std::nullopt;
  if (!c_.take_symbol("*") && c_.next().what != kind::number) return std::nullopt;
  if (!c_.take("from") || !take_channels_call()) return std::nullopt;
  const auto table = alias("pg_listening_channels");
  std::string compared = table;
  if (c_.take_symbol("(")) {  // AS c(name)
    compared = c_.name();
    c_.need_symbol(")");
  }
  if (!c_.take("where")) return std::nullopt;
  auto left = c_.name();
  if (c_.take_symbol(".")) left = c_.name();
  if (left != compared && left != table) return std::nullopt;
  if (!c_.take_symbol("=")) return std::nullopt;
  auto channel = value();
  if (!c_.take_symbol(")")) return std::nullopt;
  auto column = alias("exists");
  if (!c_.ends()) return std::nullopt;
  return select_listens_to{std::move(column), std::move(channel)};
}

// Whether what is selected from is pg_type, pg_enum or pg_range beside it, or a subquery (Npgsql's) with it.
bool query_parser::loads_types(std::size_t table) const {
  if (c_.here(table).text == "pg_catalog" && c_.peek_symbol(".", table + 1)) table += 2;
  const auto& first = c_.here(table).text;
  if (first == "pg_type") return true;
  if (first != "pg_enum" && first != "pg_range" && !c_.peek_symbol("(", table)) return false;
  for (++table; !c_.ends(table); ++table)
    if (c_.here(table).text == "pg_type" && c_.here(table).what == kind::word) return true;
  return false;
}

// SELECT ... FROM pg_type ...: the columns by name, and no row. Its conditions are not looked into.
std::optional<statement> query_parser::types_query() {
  std::size_t depth = 0;
  std::size_t from = 0;  // how many tokens ahead
  for (; !c_.ends(from); ++from) {
    if (c_.peek_symbol("(", from)) ++depth;
    if (c_.peek_symbol(")", from) && depth > 0) --depth;
    if (depth == 0 && c_.peek("from", from)) break;
  }
  if (!loads_types(from + 1)) return std::nullopt;
  select_nothing s{column_names(from)};
  c_.go_to_end();
  return s;
}

// The names of what is selected before `from`: an alias, or the last word of it.
std::vector<std::string> query_parser::column_names(std::size_t from) const {
  std::vector<std::string> names;
  std::size_t depth = 0;
  std::string last;
  for (std::size_t i = 0; i < from; ++i) {
    const auto& t = c_.here(i);
    if (c_.peek_symbol("(", i)) ++depth;
    if (c_.peek_symbol(")", i) && depth > 0) --depth;
    if (depth == 0 && t.what == kind::symbol && t.text == ",") {
      names.push_back(last.empty() ? "?column?" : last);
      last.clear();
    } else if (depth == 0 && (t.what == kind::word || t.what == kind::name)) {
      last = t.text;
    }
  }
  names.push_back(last.empty() ? "?column?" : last);
  return names;
}

select_values::column query_parser::column() {
  auto v = value();
  auto label = name_of(v);
  label = alias(std::move(label));
  return {std::move(label), std::move(v)};
}

// What PostgreSQL calls a column that was given no name.
std::string query_parser::name_of(const expression& v) {
  if (v.what == expression::kind::call) return v.text;
  if (!v.cast.empty()) return v.cast;
  return "?column?";
}

expression query_parser::value() {
  if (++depth_ > most_nested) c_.fail({"54001", "the query is nested too deeply", {}});
  auto v = primary();
  --depth_;
  while (c_.take_symbol("::")) v.cast = type();
  return v;
}

std::string query_parser::type() {
  if (c_.peek("pg_catalog") && c_.peek_symbol(".", 1)) c_.skip(2);
  if (c_.ends() || (c_.here().what != kind::word && c_.here().what != kind::name)) c_.syntax_error();
  auto made = cast_of(c_.next().text);
  if (made.empty() || c_.peek_symbol("(") || c_.peek_symbol("[")) c_.fail(unsupported("a cast to this type"));
  return made;
}

expression query_parser::primary() {
  using what = expression::kind;
  if (c_.ends()) c_.syntax_error();
  if (c_.take_symbol("(")) {
    auto v = value();
    c_.need_symbol(")");
    return v;
  }
  if (c_.peek_symbol("-") && !c_.ends(1) && c_.here(1).what == kind::number) {
    c_.skip(1);
    auto v = number();
    v.text.insert(0, "-");
    return v;
  }
  const auto& t = c_.here();
  switch (t.what) {
    case kind::number:
      return number();
    case kind::string:
      return {what::text, c_.next().text};
    case kind::parameter:
      return parameter();
    case kind::word:
    case kind::name:
      return call_or_word();
    case kind::bits:
    case kind::symbol:
      break;
  }
  c_.fail(unsupported("this query"));
  return {};
}

expression query_parser::number() {
  const auto& text = c_.next().text;
  const bool whole = text.find_first_not_of("0123456789") == std::string::npos && text.size() <= 18;
  return {whole ? expression::kind::integer : expression::kind::numeric, text};
}

expression query_parser::parameter() {
  const auto& digits = c_.next().text;
  const auto number = digits.size() > 5 ? 0 : std::stoul(digits);
  if (number == 0 || number > 65'535)
    return c_.fail({"42P02", "there is no parameter $" + digits, {}}), expression{};
  parameters_ = std::max<std::size_t>(parameters_, number);
  return {expression::kind::parameter, digits};
}

expression query_parser::call_or_word() {
  using what = expression::kind;
  if (c_.take("null")) return {what::null, {}};
  if (c_.take("true")) return {what::boolean, "t"};
  if (c_.take("false")) return {what::boolean, "f"};
  if (c_.peek("pg_catalog") && c_.peek_symbol(".", 1)) c_.skip(2);
  if (c_.ends()) c_.syntax_error();
  const auto word = c_.next().text;
  if (word == "pg_notify") c_.fail(unsupported("pg_notify()"));
  const auto* f = function_named(word);
  if (f == nullptr) return c_.fail(unsupported("this query")), expression{};
  expression v{what::call, word};
  if (!c_.peek_symbol("(")) {
    if (!is_bare_function(word)) c_.fail(unsupported("this query"));
    return v;
  }
  c_.skip(1);
  if (!c_.take_symbol(")")) {
    do v.arguments.push_back(value());
    while (c_.take_symbol(","));
    c_.need_symbol(")");
  }
  if (v.arguments.size() < f->least || v.arguments.size() > f->most)
    c_.fail({"42883",
             "function " + word + " does not exist with " + std::to_string(v.arguments.size()) + " arguments",
             {}});
  return v;
}

}  // namespace pgwaked::door
