#include "daemon/door/statement.hpp"

#include <utility>

#include "common/channel.hpp"
#include "daemon/door/query_parser.hpp"
#include "daemon/door/sql_cursor.hpp"

namespace pgwaked::door {
namespace {

using kind = sql_token::kind;

// At most 63 bytes, no character in two.
std::size_t fitting(std::string_view text) {
  if (text.size() <= pgwake::max_channel_bytes) return text.size();
  auto end = pgwake::max_channel_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return end;
}

channel_name channel_of(const std::string& text) {
  const auto end = fitting(text);
  return end == text.size() ? channel_name{text, {}} : channel_name{text.substr(0, end), text};
}

// One statement of a session, by recursive descent.
class statement_parser {
 public:
  statement_parser(sql_cursor& cursor, std::size_t& parameters) : c_(cursor), parameters_(parameters) {}

  statement one() {
    if (c_.take("listen")) return finish(listen{channel()});
    if (c_.take("unlisten")) return take_unlisten();
    if (c_.take("notify")) return c_.fail(unsupported("NOTIFY")), statement{};
    if (c_.take("do")) return take_block();
    if (c_.take("begin")) return take_begin(false);
    if (c_.peek("start") && c_.peek("transaction", 1)) return c_.skip(2), take_modes(true);
    if (c_.take("commit") || c_.take("end")) return take_end(commit{});
    if (c_.take("rollback") || c_.take("abort")) return take_end(rollback{});
    if (c_.take("set")) return take_set();
    if (c_.take("reset")) return take_reset();
    if (c_.take("show")) return take_show();
    if (c_.take("discard")) return take_discard();
    if (c_.take("deallocate")) return take_deallocate();
    if (c_.peek("close") && c_.peek("all", 1)) return c_.skip(2), finish(close_all{});
    if (c_.take("select")) return query_parser(c_, parameters_).select();
    if (!c_.ends() && c_.here().what != kind::word) c_.syntax_error();
    c_.fail(unsupported("this statement"));
    return {};
  }

 private:
  template <class Statement>
  statement finish(Statement s) {
    if (!c_.ends()) c_.syntax_error();
    return s;
  }

  channel_name channel() { return channel_of(c_.name()); }

  statement take_unlisten() {
    if (c_.take_symbol("*")) return finish(unlisten{});
    return finish(unlisten{channel()});
  }

  statement take_block() {
    if (c_.peek("language")) c_.fail(unsupported("DO with a language"));
    if (c_.ends() || c_.here().what != kind::string) c_.syntax_error();
    const auto body = scan_sql(c_.next().text);
    if (!c_.ends() || body.error) c_.fail(unsupported("DO"));
    listen_block block;
    sql_cursor inner(body.tokens, 0, body.tokens.size());
    if (!inner.take("begin")) c_.fail(unsupported("DO"));
    block.ends_listening = inner.peek("unlisten");
    while (inner.take(block.ends_listening ? "unlisten" : "listen")) {
      block.channels.push_back(channel_of(inner.name()));
      if (!inner.take_symbol(";")) inner.fail(unsupported("DO"));
    }
    if (inner.error()) c_.fail(*inner.error());
    const bool closed = inner.take("end");
    inner.take_symbol(";");
    if (!closed || !inner.ends()) c_.fail(unsupported("DO with more than LISTEN or UNLISTEN"));
    return block;
  }

  statement take_begin(bool start) {
    if (!c_.take("work")) c_.take("transaction");
    return take_modes(start);
  }

  // ISOLATION LEVEL ..., READ ONLY, READ WRITE, [NOT] DEFERRABLE, with commas or without. They
  // mean nothing here.
  statement take_modes(bool start) {
    modes();
    return finish(begin{start});
  }

  void modes() {
    while (!c_.ends()) {
      if (c_.take("isolation")) {
        c_.need("level");
        isolation();
      } else if (c_.take("read")) {
        if (!c_.take("only")) c_.need("write");
      } else if (c_.take("not")) {
        c_.need("deferrable");
      } else {
        c_.need("deferrable");
      }
      if (c_.take_symbol(",") && c_.ends()) c_.syntax_error();
    }
  }

  void isolation() {
    if (c_.take("serializable")) return;
    if (c_.take("repeatable")) return c_.need("read");
    c_.need("read");
    if (!c_.take("committed")) c_.need("uncommitted");
  }

  statement take_end(statement s) {
    if (!c_.take("work")) c_.take("transaction");
    if (c_.peek("to")) c_.fail(unsupported("ROLLBACK TO SAVEPOINT"));
    if (c_.peek("prepared")) c_.fail(unsupported("two-phase commit"));
    if (c_.take("and")) {
      if (!c_.take("no")) c_.fail(unsupported("AND CHAIN"));
      c_.need("chain");
    }
    if (!c_.ends()) c_.syntax_error();
    return s;
  }

  statement take_set() {
    set_value s;
    if (c_.peek("session") && c_.peek("characteristics", 1)) {
      c_.skip(2);
      c_.need("as");
      c_.need("transaction");
      if (c_.ends()) c_.syntax_error();
      modes();
      return set_characteristics{};
    }
    if (c_.peek("session") && c_.peek("authorization", 1)) c_.fail(unsupported("SET SESSION AUTHORIZATION"));
    if (c_.take("local"))
      s.where = set_value::scope::local;
    else
      c_.take("session");
    for (const auto* word : {"role", "constraints", "transaction"})
      if (c_.peek(word)) c_.fail(unsupported("SET " + std::string(word)));
    if (c_.take("time")) {
      c_.need("zone");
      s.name = "timezone";
      s.value = time_zone();
    } else if (c_.take("names")) {
      s.name = "client_encoding";
      if (!c_.ends() && !c_.take("default")) s.value = setting_value();
    } else {
      s.name = setting_name();
      if (!c_.take("to")) c_.need_symbol("=");
      if (!c_.take("default")) s.value = setting_values();
    }
    return finish(std::move(s));
  }

  std::optional<std::string> time_zone() {
    if (c_.take("default") || c_.take("local")) return std::nullopt;
    if (c_.take("interval")) c_.fail(unsupported("SET TIME ZONE INTERVAL"));
    return setting_value();
  }

  std::string setting_name() {
    if (c_.ends() || (c_.here().what != kind::name && c_.here().what != kind::word)) c_.syntax_error();
    auto text = lower(c_.name());
    while (c_.take_symbol(".")) text += "." + lower(c_.name());
    return text;
  }

  static std::string lower(std::string text) {
    for (auto& c : text)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return text;
  }

  std::string setting_values() {
    auto text = setting_value();
    while (c_.take_symbol(",")) text += ", " + setting_value();
    return text;
  }

  std::string setting_value() {
    if (c_.ends()) c_.syntax_error();
    std::string sign;
    if (c_.peek_symbol("-") || c_.peek_symbol("+")) sign = c_.next().text == "-" ? "-" : "";
    if (c_.ends()) c_.syntax_error();
    if (c_.here().what == kind::number) return sign + c_.next().text;
    if (!sign.empty()) c_.syntax_error();
    if (c_.here().what == kind::string || c_.here().what == kind::name) return c_.next().text;
    if (c_.here().what != kind::word) c_.syntax_error();
    if (is_reserved(c_.here().text) && c_.here().text != "true" && c_.here().text != "false" &&
        c_.here().text != "on")
      c_.syntax_error();
    return c_.next().text;
  }

  statement take_reset() {
    if (c_.take("all")) return finish(reset{});
    if (c_.peek("session") || c_.peek("role")) c_.fail(unsupported("RESET of a role"));
    if (c_.peek("time") && c_.peek("zone", 1)) return c_.skip(2), finish(reset{"timezone"});
    if (c_.peek("transaction")) {
      c_.skip(1);
      c_.need("isolation");
      c_.need("level");
      return finish(reset{"transaction_isolation"});
    }
    return finish(reset{setting_name()});
  }

  statement take_show() {
    if (c_.take("all")) return finish(show{});
    if (c_.peek("time") && c_.peek("zone", 1)) return c_.skip(2), finish(show{"timezone"});
    if (c_.peek("transaction") && c_.peek("isolation", 1)) {
      c_.skip(2);
      c_.need("level");
      return finish(show{"transaction_isolation"});
    }
    if (c_.peek("session") && c_.peek("authorization", 1))
      return c_.skip(2), finish(show{"session_authorization"});
    return finish(show{setting_name()});
  }

  statement take_discard() {
    if (c_.take("all")) return finish(discard{discard::kind::all});
    if (c_.take("plans")) return finish(discard{discard::kind::plans});
    if (c_.take("sequences")) return finish(discard{discard::kind::sequences});
    if (c_.take("temp") || c_.take("temporary")) return finish(discard{discard::kind::temp});
    c_.syntax_error();
    return {};
  }

  statement take_deallocate() {
    c_.take("prepare");
    if (c_.take("all")) return finish(deallocate{});
    return finish(deallocate{c_.name()});
  }

  sql_cursor& c_;
  std::size_t& parameters_;
};

}  // namespace

sql_error unsupported(std::string_view what) {
  const bool notifies = what == "NOTIFY" || what == "pg_notify()";
  return {"0A000", std::string(what) + " is not supported: this socket serves LISTEN",
          notifies ? "Send notifications to the database itself, in the transaction that they belong to."
                   : "Send it to the database itself."};
}

parsed parse_sql(std::string_view sql, bool backslashes) {
  parsed out;
  const auto words = scan_sql(sql, backslashes);
  if (words.error) {
    out.error = words.error;
    return out;
  }
  const auto& tokens = words.tokens;
  // A syntax error anywhere is told before anything that is not supported, as PostgreSQL parses
  // the whole first.
  std::optional<sql_error> refused;
  for (std::size_t begin = 0; begin < tokens.size();) {
    auto end = begin;
    while (end < tokens.size() && !(tokens[end].what == kind::symbol && tokens[end].text == ";")) ++end;
    if (end > begin) {
      sql_cursor cursor(tokens, begin, end);
      auto made = statement_parser(cursor, out.parameters).one();
      const auto& error = cursor.error();
      if (!error) {
        out.statements.push_back(std::move(made));
      } else if (error->sqlstate == "42601") {
        refused = error;
        break;
      } else if (!refused) {
        refused = error;
      }
    }
    begin = end + 1;
  }
  if (refused) {
    out.error = std::move(refused);
    out.statements.clear();
  }
  return out;
}

namespace {

std::size_t beyond(const std::string& text) {
  return text.capacity() < sizeof text / 2 ? 0 : text.capacity();
}
std::size_t beyond(const std::optional<std::string>& text) { return text ? beyond(*text) : 0; }
std::size_t beyond(const channel_name& c) { return beyond(c.text) + beyond(c.cut_from); }
std::size_t beyond(const expression& e) {
  auto sum = beyond(e.text) + beyond(e.cast) + e.arguments.capacity() * sizeof e;
  for (const auto& one : e.arguments) sum += beyond(one);
  return sum;
}
std::size_t beyond(const select_values::column& c) { return beyond(c.name) + beyond(c.value); }
template <class T>
std::size_t beyond(const std::vector<T>& all) {
  auto sum = all.capacity() * sizeof(T);
  for (const auto& one : all) sum += beyond(one);
  return sum;
}

std::size_t beyond(const listen& s) { return beyond(s.channel); }
std::size_t beyond(const unlisten& s) { return s.channel ? beyond(*s.channel) : 0; }
std::size_t beyond(const listen_block& s) { return beyond(s.channels); }
std::size_t beyond(const set_value& s) { return beyond(s.name) + beyond(s.value); }
std::size_t beyond(const reset& s) { return beyond(s.name); }
std::size_t beyond(const show& s) { return beyond(s.name); }
std::size_t beyond(const deallocate& s) { return beyond(s.name); }
std::size_t beyond(const select_values& s) { return beyond(s.columns); }
std::size_t beyond(const select_channels& s) { return beyond(s.column); }
std::size_t beyond(const select_listens_to& s) { return beyond(s.column) + beyond(s.channel); }
std::size_t beyond(const select_nothing& s) { return beyond(s.columns); }
template <class T>
requires std::is_empty_v<T> || std::is_same_v<T, begin> || std::is_same_v<T, discard> std::size_t beyond(
    const T&) {
  return 0;
}

}  // namespace

std::size_t bytes_of(const statement& s) {
  return sizeof s + std::visit([](const auto& one) { return beyond(one); }, s);
}

}  // namespace pgwaked::door
