#include <utility>

#include "daemon/door/session.hpp"

// What statements do to the session: its transaction, its settings, and what it listens to.
namespace pgwaked::door {
namespace {

const char* tag_of(discard::kind what) {
  switch (what) {
    case discard::kind::plans:
      return "DISCARD PLANS";
    case discard::kind::sequences:
      return "DISCARD SEQUENCES";
    case discard::kind::temp:
      return "DISCARD TEMP";
    case discard::kind::all:
      break;
  }
  return "DISCARD ALL";
}

const sql_error in_failed_transaction{
    "25P02", "current transaction is aborted, commands ignored until end of transaction block", {}};

}  // namespace

void session::tell(const virtual_settings::reports& reports) {
  for (const auto& r : reports) changed_.insert_or_assign(r.name, r.value);
}

// Settings that changed are reported right before, once each, as the server does since version 14.
void session::ready() {
  for (const auto& [name, value] : std::exchange(changed_, {})) put_parameter(out_, name, value);
  put_ready(out_, tx_);
}

void session::warn(std::string sqlstate, std::string message) {
  put_notice(out_, "WARNING", {std::move(sqlstate), std::move(message), {}});
}

// A statement without rows puts its tag itself; one with rows fills `rows`. failed: `error_` says why.
session::outcome session::execute(const statement& s, const std::vector<bound>& parameters,
                                  std::vector<row>* rows) {
  ++tally_->done[s.index()];
  const auto done = [this](std::string_view tag) {
    put_complete(out_, tag);
    return outcome::done;
  };
  const auto failed = [this](sql_error e) {
    error_ = std::move(e);
    return outcome::failed;
  };
  if (std::holds_alternative<rollback>(s)) {
    if (!explicit_block()) warn("25P01", "there is no transaction in progress");
    tx_ = transaction_state::idle;
    roll_back();
    forget_portals();
    return done("ROLLBACK");
  }
  if (std::holds_alternative<door::commit>(s)) {
    if (tx_ == transaction_state::failed) {
      tx_ = transaction_state::idle;
      roll_back();
      forget_portals();
      return done("ROLLBACK");
    }
    if (!explicit_block()) warn("25P01", "there is no transaction in progress");
    return commit("COMMIT");
  }
  if (tx_ == transaction_state::failed) return failed(in_failed_transaction);
  if (const auto* l = std::get_if<listen>(&s)) return want({l->channel}, "LISTEN");
  if (const auto* b = std::get_if<listen_block>(&s)) {
    if (!b->ends_listening) return want(b->channels, "DO");
    for (const auto& c : b->channels) view_.erase(c.text);
    return done("DO");
  }
  if (const auto* u = std::get_if<unlisten>(&s)) {
    if (u->channel)
      view_.erase(u->channel->text);
    else
      view_.clear();
    return done("UNLISTEN");
  }
  if (const auto* b = std::get_if<door::begin>(&s)) {
    if (explicit_block()) {
      warn("25001", "there is already a transaction in progress");
    } else {
      if (!task_.simple && !mid_sequence_) settings_.begin();
      tx_ = transaction_state::open;
    }
    return done(b->start_transaction ? "START TRANSACTION" : "BEGIN");
  }
  virtual_settings::reports reports;
  if (const auto* v = std::get_if<set_value>(&s)) {
    const bool local = v->where == set_value::scope::local;
    if (local && !explicit_block()) warn("25P01", "SET LOCAL can only be used in transaction blocks");
    if (auto e = settings_.set(v->name, v->value, local, reports)) return failed(std::move(*e));
    tell(reports);
    return done("SET");
  }
  if (std::holds_alternative<set_characteristics>(s)) return done("SET");
  if (const auto* r = std::get_if<reset>(&s)) {
    if (!r->name)
      settings_.reset_all(reports);
    else if (auto e = settings_.set(*r->name, std::nullopt, false, reports))
      return failed(std::move(*e));
    tell(reports);
    return done("RESET");
  }
  if (const auto* d = std::get_if<discard>(&s)) {
    if (d->what == discard::kind::all) {
      if (explicit_block() || task_.statements.size() > 1)
        return failed({"25001", "DISCARD ALL cannot run inside a transaction block", {}});
      discard_all();
    }
    return done(tag_of(d->what));
  }
  if (const auto* d = std::get_if<deallocate>(&s)) {
    if (!d->name) {
      forget_statements();
      return done("DEALLOCATE ALL");
    }
    if (!prepared_.contains(*d->name))
      return failed({"26000", "prepared statement \"" + *d->name + "\" does not exist", {}});
    forget_statement(*d->name);
    return done("DEALLOCATE");
  }
  if (std::holds_alternative<close_all>(s)) return done("CLOSE CURSOR ALL");
  value_maker values(facts_, settings_, held_.all());
  auto made = values.rows(s, parameters, reports);
  if (auto* e = std::get_if<sql_error>(&made)) return failed(std::move(*e));
  tell(reports);
  *rows = std::move(std::get<std::vector<row>>(made));
  return outcome::done;
}

session::outcome session::want(const std::vector<channel_name>& channels, std::string tag) {
  name_set wanted;
  for (const auto& c : channels) {
    view_.insert(c.text);
    wanted.insert(c.text);
    if (view_.bytes() > most_names_bytes) {
      error_ = {"53400", "a session of this socket listens to channels of at most 4 MiB of names", {}};
      return outcome::failed;
    }
    if (!c.cut_from.empty())
      put_notice(out_, "NOTICE",
                 {"42622", "identifier \"" + c.cut_from + "\" will be truncated to \"" + c.text + "\"", {}});
  }
  // In a block it is waited for at COMMIT, in a simple query at the end of the query. Outside of both the
  // driver takes the tag for the answer.
  if (!explicit_block() && !task_.simple) return await(wanted, std::move(tag));
  put_complete(out_, tag);
  return outcome::done;
}

// Subscribes to what of `wanted` is not subscribed yet; the tag is put when all of it is there.
session::outcome session::await(const name_set& wanted, std::string tag) {
  for (const auto& c : wanted) {
    if (subscribed_.contains(c)) continue;
    awaited_.insert(c);
    actions_.emplace_back(subscribe{c});
  }
  if (awaited_.empty()) {
    if (!tag.empty()) put_complete(out_, tag);
    return outcome::done;
  }
  task_.tag = std::move(tag);
  state_ = state::subscribing;
  return outcome::waiting;
}

session::outcome session::commit(std::string tag) {
  const auto how = await(view_, std::move(tag));
  if (how == outcome::waiting)
    task_.commits = true;
  else
    committed();
  return how;
}

void session::committed() {
  held_ = view_;
  tx_ = transaction_state::idle;
  forget_portals();
  drop_unheld();
  virtual_settings::reports reports;
  settings_.commit(reports);
  tell(reports);
  settings_.begin();
}

// What is not of a block any more is as it was before the transaction.
void session::roll_back() {
  view_ = held_;
  drop_unheld();
  virtual_settings::reports reports;
  settings_.rollback(reports);
  tell(reports);
  settings_.begin();
}

void session::drop_unheld() {
  for (auto it = subscribed_.begin(); it != subscribed_.end();) {
    if (held_.contains(*it)) {
      ++it;
      continue;
    }
    actions_.emplace_back(unsubscribe{*it});
    it = subscribed_.erase(it);
  }
}

void session::discard_all() {
  virtual_settings::reports reports;
  settings_.reset_all(reports);
  tell(reports);
  forget_statements();
  forget_portals();
  view_.clear();
}

}  // namespace pgwaked::door
