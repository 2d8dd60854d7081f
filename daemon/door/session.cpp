#include "daemon/door/session.hpp"

#include <algorithm>
#include <utility>

namespace pgwaked::door {
namespace {

constexpr std::uint32_t ssl_request = 80'877'103;
constexpr std::uint32_t gss_request = 80'877'104;
constexpr std::uint32_t cancel_request = 80'877'102;
constexpr std::uint32_t newest_minor = 2;

sql_error violated(std::string what) { return {"08P01", std::move(what), {}}; }

// `-c name=value --name=value`, as the startup packet's `options` has it; a backslash keeps
// the next character.
std::vector<std::string> words_of(std::string_view options) {
  std::vector<std::string> words;
  std::string word;
  bool any = false;
  for (std::size_t i = 0; i < options.size(); ++i) {
    if (options[i] == ' ') {
      if (std::exchange(any, false)) words.push_back(std::exchange(word, {}));
      continue;
    }
    if (options[i] == '\\' && i + 1 < options.size()) ++i;
    word += options[i];
    any = true;
  }
  if (any) words.push_back(word);
  return words;
}

std::optional<std::pair<std::string, std::string>> assignment(std::string_view text) {
  const auto equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) return std::nullopt;
  std::string name(text.substr(0, equals));
  std::replace(name.begin(), name.end(), '-', '_');
  return std::pair(std::move(name), std::string(text.substr(equals + 1)));
}

}  // namespace

void session::bytes(std::string_view data) {
  if (state_ == state::closed) return;
  in_.append(data);
  read();
}

void session::read() {
  while (state_ == state::startup || state_ == state::ready) {
    stalled_ = out_.size() >= most_said;
    if (stalled_) return;
    client_reader::message m;
    switch (in_.next(m)) {
      case client_reader::outcome::need_more:
        return;
      case client_reader::outcome::malformed:
        return violation(state_ == state::startup ? "invalid length of startup packet"
                                                  : "invalid message length");
      case client_reader::outcome::message:
        ++messages_;
        break;
    }
    if (state_ == state::startup)
      take_startup(m.body);
    else
      take(m.type, m.body);
  }
}

void session::resume() {
  if (std::exchange(stalled_, false)) read();
}

void session::violation(std::string what) { close(violated(std::move(what))); }

void session::close(const sql_error& why) {
  if (state_ == state::closed) return;
  put_error(out_, "FATAL", why);
  last_words_ = why;
  ++tally_->errors[why.sqlstate];
  state_ = state::closed;
  in_.clear();
  actions_.emplace_back(end{});
}

void session::take_startup(std::string_view body) {
  body_reader r(body);
  const auto version = static_cast<std::uint32_t>(r.int32());
  if (version == ssl_request || version == gss_request) {
    out_ += 'N';
    return;
  }
  if (version == cancel_request) {
    const auto pid = static_cast<std::uint32_t>(r.int32());
    actions_.emplace_back(cancel{pid, std::string(r.rest())});
    actions_.emplace_back(end{});
    state_ = state::closed;
    return;
  }
  const auto major = version >> 16U;
  minor_ = version & 0xFFFFU;
  if (major != 3)
    return close({"0A000",
                  "unsupported frontend protocol " + std::to_string(major) + "." + std::to_string(minor_) +
                      ": server supports 3.0 to 3.2",
                  {}});
  while (!r.bad()) {
    const auto name = r.text();
    if (name.empty()) break;
    const std::string value(r.text());
    if (name == "user") {
      who_.user = value;
    } else if (name == "database") {
      who_.database = value;
    } else if (name == "replication") {
      who_.replication = value != "0" && value != "false" && value != "off" && value != "no";
    } else if (name == "options") {
      const auto words = words_of(value);
      for (std::size_t i = 0; i < words.size(); ++i) {
        std::string_view word = words[i];
        if (word == "-c" && i + 1 < words.size())
          word = words[++i];
        else if (word.starts_with("-c") || word.starts_with("--"))
          word.remove_prefix(2);
        if (auto a = assignment(word)) startup_settings_.push_back(std::move(*a));
      }
    } else if (name.starts_with("_pq_.")) {
      unknown_options_.emplace_back(name);
    } else {
      if (name == "application_name") who_.application_name = value;
      startup_settings_.emplace_back(name, value);
    }
  }
  if (r.bad()) return violation("invalid startup packet layout: expected terminator as last byte");
  if (who_.user.empty()) return close({"28000", "no PostgreSQL user name specified in startup packet", {}});
  if (who_.database.empty()) who_.database = who_.user;
  if (who_.replication)
    return close({"0A000", "replication is not supported: this socket serves LISTEN",
                  "Connect to the server itself."});
  in_.started();
  state_ = state::admission;
  actions_.emplace_back(ask_admission{who_});
}

void session::admit(session_facts facts, std::vector<std::pair<std::string, std::string>> settings) {
  if (state_ != state::admission) return;
  facts_ = std::move(facts);
  facts_.pid = pid_;
  settings_ = virtual_settings(settings);
  virtual_settings::reports ignored;
  for (const auto& [name, value] : startup_settings_) {
    if (auto error = settings_.set(name, value, false, ignored)) return close(*error);
    settings.emplace_back(name, settings_.get(name).value_or(""));
  }
  startup_settings_.clear();
  settings_ = virtual_settings(std::move(settings));  // RESET goes back to what the startup packet said
  if (minor_ > newest_minor || minor_ == 1 || !unknown_options_.empty())
    put_negotiation(out_, std::min(minor_, newest_minor), unknown_options_);
  put_authentication_ok(out_);
  for (const auto& r : settings_.reported()) put_parameter(out_, r.name, r.value);
  put_key(out_, pid_, secret_);
  ready();
  state_ = state::ready;
  read();
}

void session::take(char type, std::string_view body) {
  if (skipping_ && type != 'S' && type != 'X') return;
  body_reader r(body);
  switch (type) {
    case 'Q': {
      const auto sql = r.text();
      if (!r.done()) return violation("invalid message format");
      mid_sequence_ = false;
      return simple_query(sql);
    }
    case 'P':
      return take_parse(r);
    case 'B':
      return take_bind(r);
    case 'D':
      return take_describe(r);
    case 'E':
      return take_execute(r);
    case 'C':
      return take_close(r);
    case 'S':
      return take_sync();
    case 'H':  // Flush: whatever there is has been put out
      return;
    case 'X':
      state_ = state::closed;
      in_.clear();
      actions_.emplace_back(end{});
      return;
    case 'F':
      mid_sequence_ = false;
      fail(unsupported("FunctionCall"));
      return ready();
    case 'd':
    case 'c':
    case 'f':
      return violation("COPY is not under way");
    default:
      return violation("invalid frontend message type " + std::to_string(static_cast<unsigned char>(type)));
  }
}

// An error of the present message: the transaction fails with it.
void session::fail(const sql_error& e) {
  put_error(out_, "ERROR", e);
  ++tally_->errors[e.sqlstate];
  if (e.sqlstate == "0A000") actions_.emplace_back(not_served{e});
  if (explicit_block())
    tx_ = transaction_state::failed;
  else
    roll_back();
}

void session::simple_query(std::string_view sql) {
  forget_portal("");
  forget_statement("");
  auto p = parse_sql(sql, settings_.get("standard_conforming_strings") == "off");
  if (p.error) {
    fail(*p.error);
    return ready();
  }
  if (p.parameters > 0) {
    fail({"42P02", "there is no parameter $" + std::to_string(p.parameters), {}});
    return ready();
  }
  if (p.statements.empty()) {
    put_bare(out_, 'I');
    return ready();
  }
  task_ = {};
  for (const auto& one : p.statements) task_.bytes += bytes_of(one);
  task_.statements = std::move(p.statements);
  task_.simple = true;
  if (!explicit_block()) {
    settings_.begin();
    view_ = held_;
  }
  go_on();
}

// Carries out what is left of the task, until something has to be waited for.
void session::go_on() {
  while (task_.next < task_.statements.size()) {
    const auto& s = task_.statements[task_.next++];
    std::vector<row> rows;
    const value_maker values(facts_, settings_, held_.all());
    const auto columns = values.columns(s);
    std::swap(out_, task_.reply);  // what is said now is held back
    const auto how = execute(s, {}, &rows);
    if (how == outcome::done && columns) {
      put_columns(out_, *columns);
      for (const auto& one : rows) put_row(out_, one);
      put_complete(out_, std::holds_alternative<show>(s) ? "SHOW" : "SELECT " + std::to_string(rows.size()));
    }
    std::swap(out_, task_.reply);
    if (task_.reply.size() > most_reply) {
      task_ = {};
      view_ = held_;
      fail({"54000", "the answer to this query would be too large", {}});
      return ready();
    }
    if (how == outcome::waiting) return;
    if (how == outcome::failed) {
      out_ += std::exchange(task_.reply, {});
      task_ = {};
      fail(*std::exchange(error_, std::nullopt));
      return ready();
    }
  }
  finish_simple();
}

void session::finish_simple() {
  if (!explicit_block()) {
    const auto how = commit({});
    if (how == outcome::waiting) return;
  }
  out_ += std::exchange(task_.reply, {});
  task_ = {};
  ready();
}

void session::acked(std::string_view channel) {
  if (!subscribed_.take(awaited_, channel)) return;
  if (!awaited_.empty() || state_ != state::subscribing) return;
  state_ = state::ready;
  if (!task_.tag.empty()) put_complete(task_.simple ? task_.reply : out_, std::exchange(task_.tag, {}));
  if (std::exchange(task_.commits, false)) committed();
  if (task_.simple) go_on();
  read();
}

void session::refused(std::string_view channel, const sql_error& why) {
  if (awaited_.contains(channel)) {
    awaited_.erase(channel);
  } else {
    // Acked before, and refused now: the session must not stay there deaf.
    subscribed_.erase(channel);
    if (held_.contains(channel)) close(why);
    return;
  }
  if (state_ != state::subscribing) return;
  state_ = state::ready;
  for (const auto& c : std::exchange(awaited_, {})) actions_.emplace_back(unsubscribe{c});
  const bool simple = task_.simple;
  task_ = {};
  view_ = held_;
  tx_ = transaction_state::idle;  // the COMMIT has failed
  fail(why);
  if (simple)
    ready();
  else
    skipping_ = true;
  read();
}

void session::cancelled() {
  if (state_ != state::subscribing || awaited_.empty()) return;
  const auto channel = *awaited_.begin();
  actions_.emplace_back(unsubscribe{channel});
  refused(channel, {"57014", "canceling statement due to user request", {}});
}

std::size_t session::bytes_held() const {
  return prepared_bytes_ + held_.bytes() + view_.bytes() + subscribed_.bytes() + awaited_.bytes() +
         task_.bytes + task_.reply.size();
}

}  // namespace pgwaked::door
