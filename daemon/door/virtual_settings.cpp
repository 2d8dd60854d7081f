#include "daemon/door/virtual_settings.hpp"

#include <algorithm>
#include <array>

namespace pgwaked::door {
namespace {

struct known {
  std::string_view name;  // as the server spells it
  std::string_view value;
  bool fixed = false;     // 55P02: cannot be changed
  bool reported = false;  // by ParameterStatus
};

// What drivers ask for or set. The values are PostgreSQL's defaults for a session of an ordinary role.
constexpr std::array<known, 73> table{{{"allow_system_table_mods", "off"},
                                       {"application_name", "", false, true},
                                       {"array_nulls", "on"},
                                       {"backend_flush_after", "0"},
                                       {"backslash_quote", "safe_encoding"},
                                       {"block_size", "8192", true},
                                       {"bytea_output", "hex"},
                                       {"check_function_bodies", "on"},
                                       {"client_encoding", "UTF8", false, true},
                                       {"client_min_messages", "notice"},
                                       {"commit_delay", "0"},
                                       {"constraint_exclusion", "partition"},
                                       {"cursor_tuple_fraction", "0.1"},
                                       {"data_checksums", "off", true},
                                       {"DateStyle", "ISO, MDY", false, true},
                                       {"deadlock_timeout", "1s"},
                                       {"default_statistics_target", "100"},
                                       {"default_tablespace", ""},
                                       {"default_toast_compression", "pglz"},
                                       {"default_transaction_deferrable", "off"},
                                       {"default_transaction_isolation", "read committed"},
                                       {"default_transaction_read_only", "off", false, true},
                                       {"effective_cache_size", "4GB"},
                                       {"effective_io_concurrency", "1"},
                                       {"enable_hashjoin", "on"},
                                       {"enable_mergejoin", "on"},
                                       {"enable_nestloop", "on"},
                                       {"enable_seqscan", "on"},
                                       {"escape_string_warning", "on"},
                                       {"exit_on_error", "off"},
                                       {"extra_float_digits", "1"},
                                       {"from_collapse_limit", "8"},
                                       {"geqo", "on"},
                                       {"idle_in_transaction_session_timeout", "0"},
                                       {"idle_session_timeout", "0"},
                                       {"in_hot_standby", "off", true, true},
                                       {"integer_datetimes", "on", true, true},
                                       {"IntervalStyle", "postgres", false, true},
                                       {"is_superuser", "off", true, true},
                                       {"jit", "on"},
                                       {"join_collapse_limit", "8"},
                                       {"lc_collate", "C", true},
                                       {"lc_ctype", "C", true},
                                       {"lc_messages", "C"},
                                       {"lc_monetary", "C"},
                                       {"lc_numeric", "C"},
                                       {"lc_time", "C"},
                                       {"lock_timeout", "0"},
                                       {"maintenance_work_mem", "64MB"},
                                       {"max_connections", "100", true},
                                       {"max_identifier_length", "63", true},
                                       {"max_index_keys", "32", true},
                                       {"password_encryption", "scram-sha-256"},
                                       {"plan_cache_mode", "auto"},
                                       {"quote_all_identifiers", "off"},
                                       {"random_page_cost", "4"},
                                       {"row_security", "on"},
                                       {"search_path", "\"$user\", public"},
                                       {"server_encoding", "UTF8", true, true},
                                       {"server_version", "", true, true},
                                       {"server_version_num", "", true},
                                       {"session_authorization", "", true, true},
                                       {"standard_conforming_strings", "on", false, true},
                                       {"statement_timeout", "0"},
                                       {"synchronous_commit", "on"},
                                       {"tcp_keepalives_idle", "0"},
                                       {"tcp_user_timeout", "0"},
                                       {"temp_buffers", "8MB"},
                                       {"TimeZone", "Etc/UTC", false, true},
                                       {"transaction_isolation", "read committed"},
                                       {"transaction_read_only", "off"},
                                       {"work_mem", "4MB"},
                                       {"xmlbinary", "base64"}}};

std::string lower(std::string_view text) {
  std::string out(text);
  for (auto& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

const known* find(std::string_view lower_name) {
  const auto* it = std::find_if(table.begin(), table.end(), [&](const auto& k) {
    return k.name.size() == lower_name.size() && std::equal(k.name.begin(), k.name.end(), lower_name.begin(),
                                                            [](char a, char b) { return lower(a) == b; });
  });
  return it == table.end() ? nullptr : it;
}

// A setting of an extension or of the application: letters, with a dot inside.
bool is_custom(std::string_view name) {
  const auto dot = name.find('.');
  return dot != std::string_view::npos && dot > 0 && dot + 1 < name.size();
}

sql_error invalid(std::string_view name, std::string_view value) {
  return {"22023",
          "invalid value for parameter \"" + std::string(name) + "\": \"" + std::string(value) + "\"",
          {}};
}

// UTF8 however it is written, SQL_ASCII; nullopt: one that this socket does not convert to.
std::optional<std::string> encoding_of(std::string_view value) {
  std::string plain;
  for (const char c : lower(value))
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) plain += c;
  if (plain == "utf8" || plain == "unicode") return "UTF8";
  if (plain == "sqlascii") return "SQL_ASCII";
  return std::nullopt;
}

// DateStyle as PostgreSQL says it, "ISO, MDY", whichever part is given; the other one is that of `before`.
// Drivers look at how it begins. nullopt: it is none.
std::optional<std::string> date_style_of(std::string_view value, std::string_view before) {
  std::string style(before.substr(0, before.find(',')));
  std::string order(before.substr(std::min(before.find(", "), before.size() - 2) + 2));
  bool ordered = false;
  for (std::size_t at = 0; at <= value.size();) {
    const auto end = std::min(value.find(',', at), value.size());
    auto word = lower(value.substr(at, end - at));
    std::erase(word, ' ');
    at = end + 1;
    if (word == "iso") {
      style = "ISO";
    } else if (word == "sql") {
      style = "SQL";
    } else if (word.starts_with("postgres")) {
      style = "Postgres";
    } else if (word == "german") {
      style = "German";
      if (!ordered) order = "DMY";
    } else if (word == "ymd" || word == "dmy" || word.starts_with("euro")) {
      order = word == "ymd" ? "YMD" : "DMY";
      ordered = true;
    } else if (word == "mdy" || word == "us" || word.starts_with("noneuro")) {
      order = "MDY";
      ordered = true;
    } else {
      return std::nullopt;
    }
  }
  return style + ", " + order;
}

std::optional<std::string> boolean_of(std::string_view value) {
  const auto v = lower(value);
  const auto begins = [&](std::string_view word, std::size_t least) {
    return v.size() >= least && word.starts_with(v);
  };
  if (v == "1" || begins("true", 1) || begins("yes", 1) || v == "on") return "on";
  if (v == "0" || begins("false", 1) || begins("no", 1) || begins("off", 2)) return "off";
  return std::nullopt;
}

}  // namespace

sql_error no_such_setting(std::string_view name) {
  return {"42704", "unrecognized configuration parameter \"" + std::string(name) + "\"", {}};
}

virtual_settings::virtual_settings(std::vector<std::pair<std::string, std::string>> start) {
  for (auto& [name, value] : start) start_.insert_or_assign(lower(name), std::move(value));
}

std::optional<std::string> virtual_settings::start_value(std::string_view name) const {
  if (const auto it = start_.find(name); it != start_.end()) return it->second;
  const auto* k = find(name);
  return k == nullptr ? std::nullopt : std::optional<std::string>(k->value);
}

std::optional<std::string> virtual_settings::get(std::string_view name) const {
  const auto key = lower(name);
  if (const auto it = now_.find(key); it != now_.end()) return it->second;
  return start_value(key);
}

std::string virtual_settings::spelling(std::string_view name) const {
  const auto key = lower(name);
  if (const auto* k = find(key)) return std::string(k->name);
  return get(key) ? key : std::string();
}

std::optional<sql_error> virtual_settings::set(std::string_view name, const std::optional<std::string>& value,
                                               bool local, reports& out) {
  const auto key = lower(name);
  const auto* k = find(key);
  if (k == nullptr && !is_custom(key)) return no_such_setting(name);
  if (k != nullptr && k->fixed)
    return sql_error{"55P02", "parameter \"" + std::string(k->name) + "\" cannot be changed", {}};
  auto made = value;
  if (!made) {
    made = start_value(key);
  } else if (made->size() > most_value) {
    return sql_error{"54000", "the value of \"" + std::string(name) + "\" has more than 1024 bytes", {}};
  } else if (key == "client_encoding") {
    made = encoding_of(*value);
    if (!made) {
      auto error = invalid(k->name, *value);
      error.hint = "This socket speaks UTF8 and SQL_ASCII.";
      return error;
    }
  } else if (key == "datestyle") {
    made = date_style_of(*value, get(key).value_or("ISO, MDY"));
    if (!made) return invalid(k->name, *value);
  } else if (k != nullptr && (k->value == "on" || k->value == "off") && key != "row_security") {
    made = boolean_of(*value);
    if (!made)
      return sql_error{"22023", "parameter \"" + std::string(k->name) + "\" requires a Boolean value", {}};
  }
  const auto before = get(key);
  if (k == nullptr && !now_.contains(key) && std::count_if(now_.begin(), now_.end(), [](const auto& v) {
                                               return is_custom(v.first);
                                             }) >= static_cast<std::ptrdiff_t>(most_custom))
    return sql_error{"54000", "a session of this socket has at most 100 settings of its own", {}};
  if (local && !local_.contains(key)) local_.emplace(key, before.value_or(""));
  if (!local) local_.erase(key);
  now_.insert_or_assign(key, made.value_or(""));
  if (k != nullptr && k->reported && before != made) out.push_back({std::string(k->name), made.value_or("")});
  return std::nullopt;
}

void virtual_settings::reset_all(reports& out) {
  local_.clear();
  change_to({}, out);
}

void virtual_settings::change_to(values kept, reports& out) {
  const auto before = std::exchange(now_, std::move(kept));
  for (const auto& k : table) {
    if (!k.reported) continue;
    const auto key = lower(k.name);
    const auto it = before.find(key);
    const auto old = it == before.end() ? start_value(key) : std::optional(it->second);
    if (old != get(key)) out.push_back({std::string(k.name), get(key).value_or("")});
  }
}

std::vector<std::pair<std::string, std::string>> virtual_settings::all() const {
  std::map<std::string, std::string> by_name;
  for (const auto& k : table) by_name.emplace(lower(k.name), k.value);
  for (const auto& [name, value] : start_) by_name.insert_or_assign(name, value);
  for (const auto& [name, value] : now_) by_name.insert_or_assign(name, value);
  std::vector<std::pair<std::string, std::string>> out;
  for (auto& [name, value] : by_name) out.emplace_back(spelling(name), std::move(value));
  return out;
}

virtual_settings::reports virtual_settings::reported() const {
  reports out;
  for (const auto& k : table)
    if (k.reported) out.push_back({std::string(k.name), get(k.name).value_or("")});
  return out;
}

void virtual_settings::begin() {
  at_begin_ = now_;
  local_.clear();
}

void virtual_settings::commit(reports& out) {
  auto kept = now_;
  for (auto& [name, value] : std::exchange(local_, {})) {
    if (start_value(name) == value)
      kept.erase(name);
    else
      kept.insert_or_assign(name, value);
  }
  at_begin_.reset();
  change_to(std::move(kept), out);
}

void virtual_settings::rollback(reports& out) {
  local_.clear();
  if (at_begin_) change_to(*std::exchange(at_begin_, std::nullopt), out);
}

std::size_t virtual_settings::bytes() const {
  std::size_t sum = 0;
  for (const auto* part : {&start_, &now_, &local_})
    for (const auto& [name, value] : *part) sum += name.size() + value.size() + 96;
  return sum;
}

}  // namespace pgwaked::door
