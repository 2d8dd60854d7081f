#include <algorithm>
#include <type_traits>

#include "simulation/world.hpp"

namespace pgwake::simulation {

using pgwaked::engine;
using namespace std::chrono_literals;
using view = upstream_link::view;
using packet = upstream_link::packet;

// What the engine asked for, carried out as the shell would.
void world::act() {
  while (!engine_.actions().empty()) {
    for (auto& a : std::exchange(engine_.actions(), {})) {
      if (std::holds_alternative<engine::connect>(a)) {
        connect();
      } else if (auto* s = std::get_if<engine::send>(&a)) {
        send(std::move(s->sql));
      } else if (auto* c = std::get_if<engine::close_session>(&a)) {
        close_session(c->reason);
      } else if (auto* w = std::get_if<engine::close_worker>(&a)) {
        if (auto* model = find(w->worker))
          closed_by_hub(*model, w->flush, w->event + " " + to_string(w->fields));
        else if (auto* driver = find_at_door(w->worker))
          driver_closed(*driver, w->event + " " + to_string(w->fields));
      } else if (auto* m = std::get_if<engine::make_stats>(&a)) {
        auto& next = next_stats_[m->eyes];
        if (now_ < next) broken("two answers to `stats` for the same eyes in one interval");
        next = now_ + 250ms;
        engine_.answer_stats(R"({"t":"stats"})", now_);
        after_call();
      } else if (auto* n = std::get_if<engine::note>(&a)) {
        note("log: ", n->event, " ", to_string(n->fields));
        if (n->event.starts_with("LISTEN failed")) tally_.saw(rare::listen_retried);
        if (n->event == "self check not possible") tally_.saw(rare::notify_could_not_commit);
      }
    }
  }
}

void world::connect() {
  if (link_.client == view::open) broken("U8: a second connection");
  if (link_.client == view::connecting) tally_.saw(rare::attempt_abandoned);
  const auto generation = ++link_.generation;
  note("hub connects");
  link_.client = view::connecting;
  // The shell answers for a thread that cannot be had, or that waits for a file or a host for ever.
  if (!healed_ && random_.chance(4)) {
    const bool no_thread = random_.chance(50);
    tally_.saw(no_thread ? rare::no_thread : rare::file_that_does_not_come);
    return schedule(no_thread ? 0ms : 5'000ms, [this, generation] { connect_fails(generation, false); });
  }
  const bool hangs = random_.chance(5);
  if (hangs) tally_.saw(rare::half_open_connect);
  schedule(hangs ? 4'900ms : millis(random_.below(30)), [this, generation] { connect_outcome(generation); });
}

void world::connect_fails(std::uint64_t generation, bool login) {
  if (generation != link_.generation || link_.client != view::connecting) return;
  note("connect fails");
  link_.client = view::none;
  engine_.connect_failed({"no", login}, now_);
  after_call();
  act();
}

void world::connect_outcome(std::uint64_t generation) {
  if (generation != link_.generation || link_.client != view::connecting) return;
  if (!server_up_ || refuse_login_ || (one_slot_ && ghosts_ > 0)) {
    if (server_up_) tally_.saw(refuse_login_ ? rare::login_refused : rare::ghost_holds_slot);
    return connect_fails(generation, server_up_ && refuse_login_);
  }
  link_.client = view::open;
  link_.awaiting = link_.busy = link_.black_hole = false;
  link_.arriving.clear();
  link_.server = std::make_shared<database::session>(database_.open());
  link_.record = link_.server;
  link_.pooled = pooler_;
  link_.deaf = std::exchange(deaf_next_, false);
  note("connected, backend ", text(static_cast<std::uint64_t>(link_.server->pid)));
  session_info info;
  info.backend_pid = link_.server->pid + (pooler_ ? 1 : 0);
  info.server = "model";
  engine_.connected(info, now_);
  after_call();
  act();
}

void world::send(std::string sql) {
  if (link_.client != view::open) broken("a query without a session: " + sql);
  if (link_.awaiting) broken("two queries at once: " + link_.sql + " and " + sql);
  note("hub sends ", sql);
  if (sql.starts_with("UNLISTEN") && config_.upstream.listen.linger == 30s &&
      engine_.the_upstream().plan().held_count() >= config_.limits.max_channels)
    tally_.saw(rare::crowded);
  link_.awaiting = true;
  link_.sql = sql;
  if (link_.black_hole) return;
  schedule(millis(random_.below(3)),
           [this, generation = link_.generation, sql = std::move(sql)] { server_starts(generation, sql); });
}

void world::server_starts(std::uint64_t generation, const std::string& sql) {
  if (generation != link_.generation || !link_.server) return;
  link_.busy = true;
  auto duration = millis(random_.below(3));
  if (slow_ && random_.chance(60)) duration = millis(random_.pick({200UL, 2'000UL, 7'000UL, 25'000UL}));
  schedule(duration, [this, generation, sql] { server_finishes(generation, sql); });
}

void world::server_finishes(std::uint64_t generation, const std::string& sql) {
  if (generation != link_.generation || !link_.server) return;
  auto& session = *link_.server;
  // A session that is deaf and cannot say so is believed (U3): no promise covers it.
  if (sql.starts_with("NOTIFY") && link_.deaf) database_.fail_next.clear();
  if (sql.starts_with("NOTIFY") && !healed_ && !link_.deaf && random_.chance(3))
    database_.fail_next = "55P03";
  if (sql.starts_with("UNLISTEN") && !healed_ && random_.chance(10)) database_.fail_next = "57014";
  const auto before = session.listening;
  if (!healed_ && random_.chance(1) && random_.chance(40)) return answers_badly(generation);
  auto answer = database_.run(session, sql);
  const auto statements = std::count(sql.begin(), sql.end(), ';') + 1;
  note("server: ", answer.ok ? "done" : "ERROR " + answer.sqlstate, answer.truncated ? ", name cut" : "");
  if (answer.truncated) tally_.saw(rare::name_cut);
  if (!answer.ok && sql.starts_with("LISTEN") && statements > 1) tally_.saw(rare::batch_failed);
  if (!answer.ok && sql.starts_with("UNLISTEN")) tally_.saw(rare::unlisten_failed);
  if (answer.ok && sql.starts_with("UNLISTEN")) tally_.saw(rare::lingered_away);
  if (answer.sqlstate == "22P05") tally_.saw(rare::name_unconvertible);
  for (const auto& channel : session.listening)
    if (!before.contains(channel)) since_[channel] = session.since.at(channel);
  link_.busy = false;
  push_notifications();
  packet p;
  p.what = packet::kind::result;
  p.answer = std::move(answer);
  arrive(std::move(p), millis(random_.below(slow_ ? 400 : 3)));
}

// A server or middlebox that lies: ready, and nothing was carried out; or an answer that was not asked for,
// after which the shell has no session any more.
void world::answers_badly(std::uint64_t generation) {
  packet p;
  if (random_.chance(50)) {
    note("server: ready, without a word");
    tally_.saw(rare::empty_answer);
    link_.busy = false;
    p.what = packet::kind::result;
    return arrive(std::move(p), 1ms);
  }
  note("server: an answer that was not asked for");
  tally_.saw(rare::unasked_answer);
  if (generation == link_.generation) end_server_session();
}

// What an idle session is sent.
void world::push_notifications() {
  if (!link_.server || link_.busy) return;
  for (auto& n : database_.take(*link_.server)) {
    if (link_.deaf) continue;
    packet p;
    p.what = packet::kind::notification;
    p.notification = std::move(n);
    arrive(std::move(p), millis(random_.below(2)));
  }
}

void world::arrive(packet p, millis latency) {
  if (link_.black_hole || link_.client != view::open) return;
  p.at = now_ + latency;
  if (!link_.arriving.empty()) p.at = std::max(p.at, link_.arriving.back().at);
  link_.arriving.push_back(std::move(p));
}

void world::end_server_session() {
  if (!link_.server) return;
  link_.server.reset();
  link_.busy = false;
  packet p;
  p.what = packet::kind::end;
  arrive(std::move(p), millis(random_.below(5)));
}

void world::close_session(const std::string& reason) {
  if (link_.client != view::open) broken("a session is closed that is not open: " + reason);
  note("hub closes the session: ", reason);
  if (reason == "silent") tally_.saw(rare::died_silently);
  if (reason == "deaf") tally_.saw(rare::deaf_session);
  if (reason == "pooler") tally_.saw(rare::pooler_refused);
  if (reason == "recovery") tally_.saw(rare::standby_refused);
  if (link_.server && link_.black_hole) {
    ++ghosts_;
    schedule(millis(random_.between(1'000, 20'000)), [this] { --ghosts_; });
  }
  lost("closed");
}

// The session has ended for the hub: whatever was promised through it now owes a gap.
void world::lost(const char* how) {
  if (engine_.the_upstream().reason() == "relisten") tally_.saw(rare::lost_while_relistening);
  note("the hub's session is over: ", how);
  ++link_.generation;
  link_.client = view::none;
  link_.awaiting = link_.busy = false;
  link_.server.reset();
  link_.record.reset();
  link_.arriving.clear();
  for (auto& w : workers_)
    for (auto& [name, s] : w.channels) {
      if (!s.covered) continue;
      if (s.owes_gap && s.real) tally_.saw(rare::lost_twice_before_gap);
      s.owes_gap = true;
      s.gap_came = false;
      s.lost_at = database_.commits();
    }
  driver_session_lost();
}

// One read pass of the shell: ready results first, then notifications; a query that comes of it is sent after
// it.
bool world::read_pass() {
  if (!link_.has_arrived(now_)) return false;
  std::vector<packet> results;
  std::vector<packet> notifications;
  bool end = false;
  auto most = random_.chance(reads_small_ ? 70 : 20) ? random_.between(1, 3) : SIZE_MAX;
  while (most-- > 0 && link_.has_arrived(now_) && !end) {
    auto p = std::move(link_.arriving.front());
    link_.arriving.pop_front();
    if (p.what == packet::kind::end)
      end = true;
    else
      (p.what == packet::kind::result ? results : notifications).push_back(std::move(p));
  }
  const auto generation = link_.generation;
  engine_.heard(now_);
  for (auto& p : results) {
    query_result r;
    r.ok = p.answer.ok;
    r.completed = p.answer.completed;
    r.sqlstate = p.answer.sqlstate;
    r.message = "model says " + p.answer.sqlstate;
    r.row = std::move(p.answer.row);
    link_.awaiting = false;
    note("hub reads the answer");
    engine_.result(r, now_);
    after_call();
    act();
    if (generation != link_.generation) return true;
  }
  for (auto& p : notifications) {
    const auto& n = p.notification;
    note("hub reads notification ", text(n.commit), " ", n.channel,
         n.payload.empty() ? "" : " =" + n.payload.substr(0, 12));
    if (link_.awaiting && link_.sql.find("LISTEN \"") == 0 &&
        !engine_.the_upstream().plan().active(n.channel))
      tally_.saw(rare::wake_overtook_listen);
    if (!engine_.the_upstream().plan().active(n.channel)) overtaking_.insert(n.channel);
    if (n.channel == fence_channel) excuse_fence(n);
    engine_.notification(n.channel, n.payload, n.pid, now_);
    if (random_.chance(50)) after_call();  // the hub may not be looked at in between
    act();
    if (generation != link_.generation) break;
  }
  after_call();
  if (generation != link_.generation) return true;
  if (end) {
    if (engine_.the_upstream().now_in() == upstream::state::checking) tally_.saw(rare::lost_while_checking);
    lost("ended by the server");
    engine_.session_lost("gone", now_);
    after_call();
    act();
  }
  return true;
}

// Whether the hub's session, as far as the server is concerned, has committed its LISTEN.
bool world::listens(const std::string& channel) const {
  if (link_.client != view::open || !link_.record || !link_.record->listening.contains(channel)) return false;
  // What the engine has given up is closed as soon as its actions are carried out.
  return std::none_of(engine_.actions().begin(), engine_.actions().end(),
                      [](const auto& a) { return std::holds_alternative<engine::close_session>(a); });
}

void world::upstream_operation(const operation& op) {
  using kind = operation::kind;
  switch (op.what) {
    case kind::crash:
      note("PostgreSQL crashes");
      server_up_ = false;
      return end_server_session();
    case kind::start:
      note("PostgreSQL is up");
      server_up_ = true;
      refuse_login_ = refuse_login_ && random_.chance(50);
      return;
    case kind::terminate:
      note("backend terminated");
      return end_server_session();
    case kind::black_hole:
      if (link_.client == view::open) {
        note("the network swallows everything");
        link_.black_hole = true;
      }
      return;
    case kind::fail_query:
      database_.fail_next = random_.pick({"58P01", "57014", "53200", "40001"});
      return note("the next query fails with ", database_.fail_next);
    case kind::slow_query:
      slow_ = !slow_;
      return note(slow_ ? "PostgreSQL is slow" : "PostgreSQL is fast");
    case kind::bad_channel: {
      const auto& name = random_.pick(pool_);
      ever_bad_.insert(name);
      database_.bad_channels[name] = random_.pick({"58P01", "58P01", "42501"});
      return note("LISTEN ", name, " fails with ", database_.bad_channels[name]);
    }
    case kind::good_channels:
      note("every LISTEN works");
      return database_.bad_channels.clear();
    case kind::login_trouble:
      refuse_login_ = !refuse_login_;
      return note(refuse_login_ ? "logins are refused" : "logins work");
    case kind::pooler:
      if (random_.chance(50))
        pooler_ = !pooler_;
      else
        deaf_next_ = true;
      return note(pooler_ ? "a pooler is in between" : "the next session may be deaf");
    case kind::standby:
      database_.recovery = !database_.recovery;
      if (database_.recovery) end_server_session();
      return note(database_.recovery ? "the server is a standby" : "the server is a primary");
    case kind::reconnect:
      note("operator: reconnect");
      tally_.saw(rare::operator_reconnect);
      engine_.reconnect(now_);
      after_call();
      return act();
    default:
      return;
  }
}

}  // namespace pgwake::simulation
