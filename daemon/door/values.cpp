#include "daemon/door/values.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

namespace pgwaked::door {
namespace {

template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string big_endian(std::uint64_t value, std::size_t bytes) {
  std::string out;
  for (auto shift = 8 * bytes; shift > 0; shift -= 8) out += static_cast<char>(value >> (shift - 8));
  return out;
}

std::string_view name_of(type_oid type) {
  switch (type) {
    case type_oid::boolean:
      return "boolean";
    case type_oid::int8:
      return "bigint";
    case type_oid::int4:
      return "integer";
    case type_oid::oid:
      return "oid";
    default:
      return "text";
  }
}

type_oid type_named(std::string_view cast) {
  if (cast == "int4") return type_oid::int4;
  if (cast == "int8") return type_oid::int8;
  if (cast == "bool") return type_oid::boolean;
  if (cast == "oid") return type_oid::oid;
  return cast == "name" ? type_oid::name : type_oid::text;
}

std::optional<std::string> boolean_text(std::string_view text) {
  if (text == "t" || text == "true" || text == "1" || text == "on" || text == "yes") return "t";
  if (text == "f" || text == "false" || text == "0" || text == "off" || text == "no") return "f";
  return std::nullopt;
}

// The text of a value that is cast, or 22P02.
std::variant<std::string, sql_error> cast_text(std::string text, type_oid type) {
  const bool good = type == type_oid::int4   ? number_in<std::int32_t>(text).has_value()
                    : type == type_oid::int8 ? number_in<std::int64_t>(text).has_value()
                    : type == type_oid::oid  ? number_in<std::uint32_t>(text).has_value()
                                             : true;
  const auto as_boolean = type == type_oid::boolean ? boolean_text(text) : std::nullopt;
  if (good && (type != type_oid::boolean || as_boolean)) return as_boolean ? *as_boolean : std::move(text);
  return sql_error{
      "22P02", "invalid input syntax for type " + std::string(name_of(type)) + ": \"" + text + "\"", {}};
}

}  // namespace

std::optional<std::string> to_binary(std::string_view text, type_oid type) {
  switch (type) {
    case type_oid::boolean:
      return std::string(1, text == "t" ? '\1' : '\0');
    case type_oid::int4:
      return big_endian(static_cast<std::uint32_t>(number_in<std::int32_t>(text).value_or(0)), 4);
    case type_oid::oid:
      return big_endian(number_in<std::uint32_t>(text).value_or(0), 4);
    case type_oid::int8:
      return big_endian(static_cast<std::uint64_t>(number_in<std::int64_t>(text).value_or(0)), 8);
    case type_oid::text:
    case type_oid::name:
    case type_oid::void_:
      return std::string(text);
    case type_oid::numeric:
      return std::nullopt;
  }
  return std::nullopt;
}

type_oid value_maker::type_of(const expression& e) const {
  using what = expression::kind;
  if (!e.cast.empty()) return type_named(e.cast);
  switch (e.what) {
    case what::boolean:
      return type_oid::boolean;
    case what::integer:
      return number_in<std::int32_t>(e.text) ? type_oid::int4 : type_oid::int8;
    case what::numeric:
      return type_oid::numeric;
    case what::call:
      break;
    default:
      return type_oid::text;
  }
  if (e.text == "pg_backend_pid") return type_oid::int4;
  if (e.text == "pg_is_in_recovery") return type_oid::boolean;
  if (e.text == "pg_advisory_unlock_all") return type_oid::void_;
  if (e.text == "coalesce") {
    // A string constant takes the type of what stands beside it.
    for (const auto& a : e.arguments)
      if (type_of(a) != type_oid::text) return type_of(a);
    return type_oid::text;
  }
  return e.text == "version" || e.text == "current_setting" || e.text == "set_config" ? type_oid::text
                                                                                      : type_oid::name;
}

std::optional<std::vector<column>> value_maker::columns(const statement& s) const {
  if (const auto* v = std::get_if<select_values>(&s)) {
    std::vector<column> out;
    for (const auto& c : v->columns) out.push_back({c.name, type_of(c.value)});
    return out;
  }
  if (const auto* c = std::get_if<select_channels>(&s)) return std::vector<column>{{c->column}};
  if (const auto* e = std::get_if<select_listens_to>(&s))
    return std::vector<column>{{e->column, type_oid::boolean}};
  if (const auto* n = std::get_if<select_nothing>(&s)) {
    std::vector<column> out;
    for (const auto& name : n->columns)
      out.push_back({name, name.ends_with("oid") ? type_oid::oid : type_oid::text});
    return out;
  }
  if (const auto* w = std::get_if<show>(&s)) {
    if (!w->name) return std::vector<column>{{"name"}, {"setting"}, {"description"}};
    const auto spelt = settings_.spelling(*w->name);
    return std::vector<column>{{spelt.empty() ? *w->name : spelt}};
  }
  return std::nullopt;
}

std::vector<row> value_maker::shown(const std::optional<std::string>& name) const {
  if (name) return {{settings_.get(*name).value_or("")}};
  std::vector<row> out;
  for (auto& [spelt, value] : settings_.all()) out.push_back({std::move(spelt), std::move(value), ""});
  return out;
}

std::variant<std::vector<row>, sql_error> value_maker::rows(const statement& s,
                                                            const std::vector<bound>& parameters,
                                                            virtual_settings::reports& reports) {
  parameters_ = &parameters;
  reports_ = &reports;
  if (const auto* v = std::get_if<select_values>(&s)) {
    row values;
    for (const auto& c : v->columns) {
      auto made = evaluate(c.value);
      if (auto* e = std::get_if<sql_error>(&made)) return std::move(*e);
      values.push_back(std::move(std::get<evaluated>(made).text));
    }
    return std::vector<row>{std::move(values)};
  }
  if (std::holds_alternative<select_channels>(s)) {
    std::vector<row> out;
    for (const auto& c : listening_) out.push_back({c});
    return out;
  }
  if (const auto* x = std::get_if<select_listens_to>(&s)) {
    auto made = evaluate(x->channel);
    if (auto* e = std::get_if<sql_error>(&made)) return std::move(*e);
    const auto& text = std::get<evaluated>(made).text;
    return std::vector<row>{{text && listening_.contains(*text) ? "t" : "f"}};
  }
  if (const auto* w = std::get_if<show>(&s)) {
    if (w->name && !settings_.get(*w->name)) return no_such_setting(*w->name);
    return shown(w->name);
  }
  return std::vector<row>{};
}

value_maker::result value_maker::evaluate(const expression& e) {
  using what = expression::kind;
  result made = evaluated{};
  if (e.what == what::call)
    made = call(e);
  else if (e.what == what::parameter)
    made = parameter(e);
  else if (e.what != what::null)
    made = evaluated{e.text, type_of(e)};
  auto* v = std::get_if<evaluated>(&made);
  if (v == nullptr || e.cast.empty()) return made;
  v->type = type_named(e.cast);
  if (!v->text) return made;
  auto cast = cast_text(std::move(*v->text), v->type);
  if (auto* error = std::get_if<sql_error>(&cast)) return std::move(*error);
  v->text = std::move(std::get<std::string>(cast));
  return made;
}

value_maker::result value_maker::parameter(const expression& e) const {
  const auto index = number_in<std::size_t>(e.text).value_or(0);
  if (index == 0 || index > parameters_->size())
    return sql_error{"42P02", "there is no parameter $" + e.text, {}};
  const auto& b = (*parameters_)[index - 1];
  if (!b.value || !b.binary || b.type == 0 || b.type == static_cast<std::uint32_t>(type_oid::text))
    return evaluated{b.value};
  if (b.value->size() > 8) return evaluated{b.value};
  if (b.type == static_cast<std::uint32_t>(type_oid::boolean))
    return evaluated{*b.value == std::string(1, '\1') ? "t" : "f"};
  const bool number = b.type == static_cast<std::uint32_t>(type_oid::int4) ||
                      b.type == static_cast<std::uint32_t>(type_oid::int8);
  if (!number) return evaluated{b.value};
  std::uint64_t value = 0;
  for (const char c : *b.value) value = value << 8U | static_cast<unsigned char>(c);
  const auto exact = b.value->size() == 4 ? static_cast<std::int64_t>(static_cast<std::int32_t>(value))
                                          : static_cast<std::int64_t>(value);
  return evaluated{std::to_string(exact)};
}

value_maker::result value_maker::call(const expression& e) {
  if (e.text == "current_setting" || e.text == "set_config") return setting_call(e);
  if (e.text == "coalesce") {
    for (const auto& a : e.arguments) {
      auto made = evaluate(a);
      const auto* v = std::get_if<evaluated>(&made);
      if (v == nullptr || v->text) return made;
    }
    return evaluated{};
  }
  const auto type = type_of(e);
  if (e.text == "version") return evaluated{facts_.version, type};
  if (e.text == "current_schema") return evaluated{"public", type};
  if (e.text == "current_database" || e.text == "current_catalog") return evaluated{facts_.database, type};
  if (e.text == "pg_backend_pid") return evaluated{std::to_string(facts_.pid), type};
  if (e.text == "pg_is_in_recovery") return evaluated{"f", type};
  if (e.text == "pg_advisory_unlock_all") return evaluated{"", type};
  return evaluated{facts_.user, type};
}

value_maker::result value_maker::setting_call(const expression& e) {
  std::vector<std::optional<std::string>> arguments;
  for (const auto& a : e.arguments) {
    auto made = evaluate(a);
    if (auto* error = std::get_if<sql_error>(&made)) return std::move(*error);
    arguments.push_back(std::move(std::get<evaluated>(made).text));
  }
  if (e.text == "current_setting") {
    if (!arguments[0]) return evaluated{};
    auto value = settings_.get(*arguments[0]);
    const bool missing_ok = arguments.size() == 2 && arguments[1] && boolean_text(*arguments[1]) == "t";
    if (!value && !missing_ok) return no_such_setting(*arguments[0]);
    return evaluated{std::move(value)};
  }
  if (!arguments[0]) return sql_error{"22004", "SET requires parameter name", {}};
  const bool local = arguments[2] && boolean_text(*arguments[2]) == "t";
  if (auto error = settings_.set(*arguments[0], arguments[1], local, *reports_)) return std::move(*error);
  return evaluated{settings_.get(*arguments[0])};
}

}  // namespace pgwaked::door
