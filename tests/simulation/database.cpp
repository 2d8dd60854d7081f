#include "simulation/database.hpp"

#include <algorithm>
#include <utility>

namespace pgwake::simulation {
namespace {

bool fail(database::answer& out, const char* sqlstate) {
  out.ok = false;
  out.sqlstate = sqlstate;
  return false;
}

std::size_t character(std::string_view s) {
  const auto c = static_cast<unsigned char>(s[0]);
  const std::size_t n = c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
  return std::min(n, s.size());
}

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

bool skip(std::string_view& s, std::string_view word) {
  if (!s.starts_with(word)) return false;
  s = trimmed(s.substr(word.size()));
  return true;
}

}  // namespace

std::vector<std::string_view> split_statements(std::string_view sql) {
  std::vector<std::string_view> out;
  std::size_t from = 0;
  char quote = 0;
  for (std::size_t i = 0; i < sql.size(); ++i) {
    const char c = sql[i];
    if (quote == '\'' && c == '\\') {
      ++i;  // an E'' string
    } else if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == ';') {
      out.push_back(sql.substr(from, i - from));
      from = i + 1;
    }
  }
  out.push_back(sql.substr(from));
  std::erase_if(out, [](auto s) { return trimmed(s).empty(); });
  return out;
}

std::string database::converted(std::string_view name) const {
  constexpr std::string_view broken_bar = "\xC2\xA6";
  constexpr std::string_view wide_one = "\xEF\xBF\xA4";
  std::string out(name);
  if (encoding_ != encoding::wide) return out;
  for (auto at = out.find(broken_bar); at != out.npos; at = out.find(broken_bar, at))
    out.replace(at, broken_bar.size(), wide_one);
  return out;
}

std::string database::cut(std::string_view raw) const {
  const auto name = converted(raw);
  std::size_t width = 0;
  std::size_t end = 0;
  while (end < name.size()) {
    const auto n = character(std::string_view(name).substr(end));
    width += encoding_ == encoding::wide && n > 1 ? 4 : encoding_ == encoding::latin1 ? 1 : n;
    if (width > 63) break;
    end += n;
  }
  return name.substr(0, end);
}

// A quoted identifier; nullopt, and the error, where it cannot be.
std::optional<std::string> database::identifier(std::string_view& rest, answer& out) const {
  std::string name;
  std::size_t i = 1;
  for (; i < rest.size(); ++i) {
    if (rest[i] == '"') {
      if (i + 1 < rest.size() && rest[i + 1] == '"')
        ++i;
      else
        break;
    }
    name += rest[i];
  }
  rest = trimmed(rest.substr(std::min(i + 1, rest.size())));
  if (name.empty()) {
    fail(out, "42601");
    return std::nullopt;
  }
  auto kept = cut(name);
  if (kept != converted(name)) out.truncated = true;
  return kept;
}

bool database::listen(session& s, std::string_view rest, answer& out) {
  const auto channel = identifier(rest, out);
  if (!channel) return false;
  if (const auto bad = bad_channels.find(*channel); bad != bad_channels.end())
    return fail(out, bad->second.c_str());
  s.actions.push_back({'L', *channel});
  return true;
}

bool database::notify(session& s, std::string_view rest, answer& out) {
  const auto channel = identifier(rest, out);
  if (!channel) return false;
  std::string payload;
  if (skip(rest, ",")) {
    skip(rest, "E");
    for (std::size_t i = 1; i + 1 < rest.size(); ++i) {
      if ((rest[i] == '\'' || rest[i] == '\\') && i + 2 < rest.size()) ++i;
      payload += rest[i];
    }
  }
  if (payload.size() >= 8000) return fail(out, "22023");
  const auto pair = std::make_pair(*channel, payload);
  if (std::find(s.notifies.begin(), s.notifies.end(), pair) == s.notifies.end()) s.notifies.push_back(pair);
  return true;
}

// `E'x'::pg_catalog.name,E'y'::pg_catalog.name`: one column each.
void database::select_names(std::string_view list, answer& out) const {
  out.row.clear();
  std::string name;
  bool inside = false;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] != '\'') {
      if (inside && list[i] == '\\') ++i;
      if (inside) name += list[i];
    } else if (inside && i + 1 < list.size() && list[i + 1] == '\'') {
      name += list[i++];
    } else {
      if (inside) out.row.emplace_back(cut(std::exchange(name, {})));
      inside = !inside;
    }
  }
}

static const char* name_of(database::encoding e) {
  switch (e) {
    case database::encoding::utf8:
      return "UTF8";
    case database::encoding::wide:
      return "EUC_TW";
    case database::encoding::latin1:
      return "LATIN1";
    case database::encoding::ascii:
      return "SQL_ASCII";
  }
  return "";
}

void database::select(session& s, std::string_view sql, answer& out) const {
  const auto has = [sql](std::string_view word) { return sql.find(word) != std::string_view::npos; };
  if (has("pg_is_in_recovery"))
    out.row = {std::to_string(s.pid), recovery ? "t" : "f", "shop", name_of(encoding_), "0"};
  else if (has("pg_control_system"))
    out.row = {"7123"};
  else if (has("pg_listening_channels"))
    out.row = {std::to_string(s.pid), std::to_string(s.listening.size()), "0"};
  else if (has("::pg_catalog.name"))
    select_names(sql, out);
  else
    out.row = {"1"};
}

bool database::statement(session& s, std::string_view sql, answer& out) {
  sql = trimmed(sql);
  if (s.failed_transaction && sql != "ROLLBACK" && sql != "COMMIT") return fail(out, "25P02");
  if (skip(sql, "LISTEN")) return listen(s, sql, out);
  if (skip(sql, "UNLISTEN")) {
    if (sql == "*") return s.actions.push_back({'*', ""}), true;
    const auto channel = identifier(sql, out);
    if (channel) s.actions.push_back({'U', *channel});
    return channel.has_value();
  }
  if (skip(sql, "NOTIFY")) return notify(s, sql, out);
  if (sql == "SELECT 1/0") return fail(out, "22012");
  if (skip(sql, "SET")) return true;
  if (sql == "BEGIN") return s.open_transaction = true;
  if (sql == "COMMIT" || sql == "ROLLBACK") {
    if (s.failed_transaction || sql == "ROLLBACK") rollback(s);
    s.open_transaction = s.failed_transaction = false;
    return true;
  }
  select(s, sql, out);
  return true;
}

// The whole query is read before anything of it runs: that is when names are cut, and when an empty one is an
// error.
void database::parse(std::string_view sql, answer& out) const {
  sql = trimmed(sql);
  if (skip(sql, "LISTEN") || skip(sql, "UNLISTEN") || skip(sql, "NOTIFY"))
    if (sql != "*") identifier(sql, out);
}

database::answer database::run(session& s, std::string_view sql) {
  answer out;
  const auto statements = split_statements(sql);
  if (encoding_ == encoding::latin1) {
    // What LATIN1 has no character for fails when the query is read.
    for (std::size_t i = 0; i < sql.size(); i += character(sql.substr(i)))
      if (static_cast<unsigned char>(sql[i]) > 0xC3) fail(out, "22P05");
  }
  for (std::size_t k = 0; out.ok && k < statements.size(); ++k) parse(statements[k], out);
  if (!fail_next.empty()) {
    fail(out, fail_next.c_str());
    fail_next.clear();
  }
  for (std::size_t k = 0; out.ok && k < statements.size(); ++k) statement(s, statements[k], out);
  out.completed = out.ok ? statements.size() : 0;
  if (!out.ok) {
    rollback(s);
    s.failed_transaction = s.open_transaction;
  } else if (!s.open_transaction) {
    finish(s);
  }
  return out;
}

void database::rollback(session& s) {
  s.actions.clear();
  s.notifies.clear();
}

void database::finish(session& s) {
  const bool listened = !s.listening.empty();
  const bool listens =
      std::any_of(s.actions.begin(), s.actions.end(), [](const auto& a) { return a.what == 'L'; });
  if (!listened && listens) s.position = log_.size();
  for (const auto& a : std::exchange(s.actions, {})) {
    if (a.what == 'L') {
      if (s.listening.insert(a.channel).second) s.since[a.channel] = log_.size();
    } else if (a.what == 'U') {
      s.listening.erase(a.channel);
    } else {
      s.listening.clear();
    }
  }
  commit(std::exchange(s.notifies, {}), s.pid);
}

void database::commit(const std::vector<std::pair<std::string, std::string>>& notifies, int pid) {
  std::vector<std::pair<std::string, std::string>> unique;
  for (const auto& n : notifies)
    if (std::find(unique.begin(), unique.end(), n) == unique.end()) unique.push_back(n);
  for (const auto& [name, payload] : unique) {
    log_.push_back({log_.size(), converted(name), payload, pid});
    if (on_commit) on_commit(log_.back());
  }
}

std::vector<database::notification> database::take(session& s) {
  std::vector<notification> out;
  if (s.open_transaction) return out;
  for (; s.position < log_.size(); ++s.position)
    if (s.listening.contains(log_[s.position].channel)) out.push_back(log_[s.position]);
  return out;
}

}  // namespace pgwake::simulation
