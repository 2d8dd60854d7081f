#include <algorithm>
#include <utility>

#include "daemon/door/session.hpp"

// The extended query protocol: the manual's chapter 55.2.3.
namespace pgwaked::door {
namespace {

sql_error no_statement(std::string_view name) {
  return {"26000", "prepared statement \"" + std::string(name) + "\" does not exist", {}};
}
sql_error no_portal(std::string_view name) {
  return {"34000", "portal \"" + std::string(name) + "\" does not exist", {}};
}

bool wants_binary(const std::vector<std::int16_t>& formats, std::size_t index) {
  if (formats.empty()) return false;
  return formats[formats.size() == 1 ? 0 : std::min(index, formats.size() - 1)] == 1;
}

// An entry of a table beside what it is about: the node, the name's string, what malloc adds.
constexpr std::size_t kept_anyway = 128;

std::size_t bytes_of_row(const row& values) {
  std::size_t sum = sizeof values + values.capacity() * sizeof values[0];
  for (const auto& v : values) sum += v ? v->capacity() : 0;
  return sum;
}

bool ends_a_transaction(const statement& s) {
  return std::holds_alternative<commit>(s) || std::holds_alternative<rollback>(s);
}

}  // namespace

// In a failed transaction nothing but its end is taken.
bool session::statement_ok_now(const std::optional<statement>& s) {
  if (tx_ != transaction_state::failed || !s || ends_a_transaction(*s)) return true;
  fail({"25P02", "current transaction is aborted, commands ignored until end of transaction block", {}});
  skipping_ = true;
  return false;
}

// False: what it keeps for its client would be too much with so many bytes more, and that was said.
bool session::room_for(std::size_t bytes) {
  if (prepared_bytes_ + bytes <= most_prepared_bytes) return true;
  fail({"53400", "a session of this socket has prepared statements and portals of at most 1 MiB", {}});
  skipping_ = true;
  return false;
}

void session::forget_statement(std::string_view name) {
  const auto it = prepared_.find(name);
  if (it == prepared_.end()) return;
  prepared_bytes_ -= it->second.bytes;
  prepared_.erase(it);
}

void session::forget_statements() {
  while (!prepared_.empty()) forget_statement(prepared_.begin()->first);
}

void session::forget_portal(std::string_view name) {
  const auto it = portals_.find(name);
  if (it == portals_.end()) return;
  prepared_bytes_ -= it->second.bytes + it->second.bytes_of_rows;
  portals_.erase(it);
}

void session::forget_portals() {
  while (!portals_.empty()) forget_portal(portals_.begin()->first);
}

void session::take_parse(body_reader& r) {
  const std::string name(r.text());
  const auto sql = r.text();
  const auto count = r.int16();
  std::vector<std::uint32_t> types;
  for (std::int16_t i = 0; i < count && !r.bad(); ++i) types.push_back(static_cast<std::uint32_t>(r.int32()));
  if (!r.done()) return violation("invalid message format");
  if (!std::exchange(mid_sequence_, true) && !explicit_block()) settings_.begin();
  const auto refuse = [this](const sql_error& e) {
    fail(e);
    skipping_ = true;
  };
  if (!name.empty() && prepared_.contains(name))
    return refuse({"42P05", "prepared statement \"" + name + "\" already exists", {}});
  if (prepared_.size() >= most_prepared && !prepared_.contains(name))
    return refuse({"53400", "a session of this socket has at most 1000 prepared statements", {}});
  auto p = parse_sql(sql, settings_.get("standard_conforming_strings") == "off");
  if (p.error) return refuse(*p.error);
  if (p.statements.size() > 1)
    return refuse({"42601", "cannot insert multiple commands into a prepared statement", {}});
  types.resize(std::max(types.size(), p.parameters), 0);
  for (auto& t : types)
    if (t == 0 || t == 705) t = static_cast<std::uint32_t>(type_oid::text);
  prepared made;
  if (!p.statements.empty()) made.what = std::move(p.statements[0]);
  if (!statement_ok_now(made.what)) return;
  made.bytes = kept_anyway + sizeof made + name.size() + (made.what ? bytes_of(*made.what) : 0) +
               types.capacity() * sizeof types[0];
  forget_statement(name);  // the unnamed one
  if (!room_for(made.bytes)) return;
  made.parameter_types = std::move(types);
  prepared_bytes_ += made.bytes;
  prepared_.emplace(name, std::move(made));
  put_bare(out_, '1');
}

void session::take_bind(body_reader& r) {
  const std::string name(r.text());
  const std::string from(r.text());
  std::vector<std::int16_t> parameter_formats;
  for (auto n = r.int16(); n > 0 && !r.bad(); --n) parameter_formats.push_back(r.int16());
  portal made;
  for (auto n = r.int16(); n > 0 && !r.bad(); --n) {
    bound b;
    const auto size = r.int32();
    if (size >= 0) b.value = std::string(r.bytes(static_cast<std::size_t>(size)));
    b.binary = wants_binary(parameter_formats, made.parameters.size());
    if (b.value) made.bytes += b.value->capacity();
    made.parameters.push_back(std::move(b));
  }
  for (auto n = r.int16(); n > 0 && !r.bad(); --n) made.formats.push_back(r.int16());
  if (!r.done()) return violation("invalid message format");
  if (!std::exchange(mid_sequence_, true) && !explicit_block()) settings_.begin();
  const auto refuse = [this](const sql_error& e) {
    fail(e);
    skipping_ = true;
  };
  const auto it = prepared_.find(from);
  if (it == prepared_.end()) return refuse(no_statement(from));
  const auto& types = it->second.parameter_types;
  if (made.parameters.size() != types.size())
    return refuse({"08P01",
                   "bind message supplies " + std::to_string(made.parameters.size()) +
                       " parameters, but prepared statement \"" + from + "\" requires " +
                       std::to_string(types.size()),
                   {}});
  if (!name.empty() && portals_.contains(name))
    return refuse({"42P03", "cursor \"" + name + "\" already exists", {}});
  if (portals_.size() >= most_prepared && !portals_.contains(name))
    return refuse({"53400", "a session of this socket has at most 1000 portals", {}});
  if (!statement_ok_now(it->second.what)) return;
  for (std::size_t i = 0; i < types.size(); ++i) made.parameters[i].type = types[i];
  made.bytes += kept_anyway + sizeof made + name.size() + (it->second.what ? bytes_of(*it->second.what) : 0) +
                made.parameters.capacity() * sizeof(bound) + made.formats.capacity() * sizeof(std::int16_t);
  forget_portal(name);  // the unnamed one
  if (!room_for(made.bytes)) return;
  made.what = it->second.what;
  prepared_bytes_ += made.bytes;
  portals_.emplace(name, std::move(made));
  put_bare(out_, '2');
}

void session::put_formatted_columns(std::vector<column> columns, const std::vector<std::int16_t>& formats) {
  for (std::size_t i = 0; i < columns.size(); ++i) columns[i].binary = wants_binary(formats, i);
  put_columns(out_, columns);
}

void session::take_describe(body_reader& r) {
  const auto what = r.byte();
  const auto name = r.text();
  if (!r.done()) return violation("invalid message format");
  mid_sequence_ = true;
  const value_maker values(facts_, settings_, held_.all());
  const auto describe = [&](const std::optional<statement>& s, const std::vector<std::int16_t>& formats) {
    const auto columns = s ? values.columns(*s) : std::nullopt;
    if (columns)
      put_formatted_columns(*columns, formats);
    else
      put_bare(out_, 'n');
  };
  if (what == 'S') {
    const auto it = prepared_.find(name);
    if (it == prepared_.end()) {
      fail(no_statement(name));
      skipping_ = true;
      return;
    }
    put_parameter_types(out_, it->second.parameter_types);
    return describe(it->second.what, {});
  }
  if (what != 'P') return violation("invalid DESCRIBE message subtype " + std::to_string(what));
  const auto it = portals_.find(name);
  if (it == portals_.end()) {
    fail(no_portal(name));
    skipping_ = true;
    return;
  }
  describe(it->second.what, it->second.formats);
}

void session::take_execute(body_reader& r) {
  const auto name = r.text();
  const auto most = r.int32();
  if (!r.done()) return violation("invalid message format");
  mid_sequence_ = true;
  const auto it = portals_.find(name);
  if (it == portals_.end()) {
    fail(no_portal(name));
    skipping_ = true;
    return;
  }
  auto& p = it->second;
  if (!p.what) return put_bare(out_, 'I');
  if (!statement_ok_now(p.what)) return;
  if (p.rows) return send_rows(p, most);
  task_ = {};
  std::vector<row> rows;
  const value_maker values(facts_, settings_, held_.all());
  const bool has_rows = values.columns(*p.what).has_value();
  const auto s = *p.what;  // DISCARD ALL takes the portal away
  const auto how = execute(s, p.parameters, &rows);
  if (how == outcome::failed) {
    fail(*std::exchange(error_, std::nullopt));
    skipping_ = true;
  } else if (how == outcome::done && has_rows) {
    p.rows = std::move(rows);
    send_rows(p, most);
  }
}

// The rows that a portal has still to send are counted; those of one that has sent them all go. False: there
// is no room for them.
bool session::keep_rows(portal& p) {
  prepared_bytes_ -= std::exchange(p.bytes_of_rows, 0);
  if (p.sent == p.rows->size()) {
    p.rows.emplace();
    p.sent = 0;
    return true;
  }
  std::size_t bytes = 0;
  for (const auto& one : *p.rows) bytes += bytes_of_row(one);
  if (!room_for(bytes)) {
    p.rows.emplace();
    p.sent = 0;
    return false;
  }
  p.bytes_of_rows = bytes;
  prepared_bytes_ += bytes;
  return true;
}

void session::send_rows(portal& p, std::int32_t most) {
  const value_maker values(facts_, settings_, held_.all());
  const auto columns = values.columns(*p.what).value_or(std::vector<column>{});
  const auto left = p.rows->size() - p.sent;
  const bool limited = most > 0 && static_cast<std::size_t>(most) <= left;
  const auto count = limited ? static_cast<std::size_t>(most) : left;
  std::string rows;
  for (std::size_t i = 0; i < count; ++i) {
    auto one = (*p.rows)[p.sent + i];
    for (std::size_t c = 0; c < one.size() && c < columns.size(); ++c) {
      if (!one[c] || !wants_binary(p.formats, c)) continue;
      auto binary = to_binary(*one[c], columns[c].type);
      if (!binary) {
        fail(unsupported("a numeric value in binary form"));
        skipping_ = true;
        return;
      }
      one[c] = std::move(binary);
    }
    put_row(rows, one);
  }
  p.sent += count;
  if (!keep_rows(p)) return;
  out_ += rows;
  if (limited) return put_bare(out_, 's');
  put_complete(out_, std::holds_alternative<show>(*p.what) ? "SHOW" : "SELECT " + std::to_string(count));
}

void session::take_close(body_reader& r) {
  const auto what = r.byte();
  const auto name = r.text();
  if (!r.done() || (what != 'S' && what != 'P')) return violation("invalid CLOSE message");
  mid_sequence_ = true;
  if (what == 'S') {
    forget_statement(name);
  } else {
    forget_portal(name);
  }
  put_bare(out_, '3');
}

// Ends the sequence, and with it what was no block.
void session::take_sync() {
  const bool failed = std::exchange(skipping_, false);
  mid_sequence_ = false;
  task_ = {};
  if (!explicit_block()) {
    if (!failed) {
      // What LISTEN has waited for is subscribed already.
      held_ = view_;
      drop_unheld();
      virtual_settings::reports reports;
      settings_.commit(reports);
      tell(reports);
    }
    forget_portals();
  }
  ready();
}

}  // namespace pgwaked::door
