#include "daemon/core/front_door.hpp"

#include <algorithm>

namespace pgwaked {

using namespace pgwake;

namespace {

// Of the virtual session alone: who listens to it is told of gaps there, and stays connected.
constexpr std::string_view gap_channel = "pgwake.gap";
constexpr std::uint32_t first_pid = 1U << 30U;
// Read ahead of what a LISTEN waits for, so that the end of the connection is noticed.
constexpr std::size_t most_unread = 128U << 10U;
// How far closes after a gap lie apart, so that not all come back at one time: a part of a second.
constexpr millis most_jitter{1'000};
constexpr millis jitter_each{5};

const door::sql_error not_now{"57P03", "the hub has no session with the server now",
                              "Connect to the server itself, or again later."};
const door::sql_error stopping{"57P01", "terminating connection because the hub stops", "Connect again."};
const door::sql_error gap_told{"57P01",
                               "terminating connection because notifications may have been missed: the hub's "
                               "session with the server was lost, and is back",
                               "Connect and LISTEN again, then look for what was missed."};
const door::sql_error gap_lasts{"57P01",
                                "terminating connection because the hub has lost its session with the server",
                                "Notifications may have been missed. Connect again."};

std::string version_text(int version) {
  return std::to_string(version / 10'000) + "." + std::to_string(version % 10'000);
}

std::string sqlstate_of(code why) {
  switch (why) {
    case code::limit:
      return "53400";
    case code::forbidden:
      return "42501";
    case code::invalid_channel:
      return "42602";
    case code::shutdown:
    case code::moved:
    case code::wrong_database:
      return "57P01";
    case code::protocol:
      return "08P01";
    case code::listen_failed:
      break;
  }
  return "XX000";
}

}  // namespace

void dialect_pg::encode(std::string& out, const wake_view& wake) const {
  if (wake.gap != gap_cause::none) return;
  door::put_notification(out, static_cast<std::uint32_t>(wake.by), wake.q, wake.payload.value_or(""));
}

struct front_door::seat {
  seat(std::uint32_t pid, std::string key, door::tally& counts) : session(pid, std::move(key), counts) {}

  door::session session;
  channel_access access;
  std::optional<door::sql_error> refusal;
  bool unwanted = false;    // it came with a refusal
  std::uint32_t share = 0;  // of whatever is spread over time, in thousandths
  bool waiting = false;     // to be let in
  bool lapsed = false;
  bool told_of_gaps = false;  // it listens to gap_channel
  bool gap_due = false;       // a notice there, as soon as it may be sent
  bool held = false;
  bool gone = false;
  std::size_t keeps = 0;                       // as its owner was told
  std::uint64_t read = 0;                      // messages
  std::optional<steady_time> begun;            // when the unfinished message began
  std::optional<steady_time> leaves_at;        // then it is closed
  std::optional<door::sql_error> leaves_with;  // so
  std::optional<steady_time> due;              // as in due_

  // It misses notifications while the upstream is lost. What is said on gap_channel waits for it.
  bool misses_some() const { return session.acks_held() > (told_of_gaps ? 1U : 0U); }
};

front_door::front_door(limits l) : limits_(l) {}
front_door::~front_door() = default;

front_door::seat* front_door::find(worker_id id) const {
  const auto it = seats_.find(id);
  return it == seats_.end() ? nullptr : it->second.get();
}

void front_door::join(worker_id id, channel_access access, std::optional<door::sql_error> refusal,
                      std::uint64_t secret, steady_time now) {
  do last_pid_ = (last_pid_ + 1) % first_pid;
  while (by_pid_.contains(first_pid + last_pid_));
  const auto pid = first_pid + last_pid_;
  std::string key;
  for (int shift = 0; shift < 32; shift += 8) key += static_cast<char>(secret >> shift);
  auto s = std::make_unique<seat>(pid, std::move(key), tally_);
  s->access = std::move(access);
  s->refusal = std::move(refusal);
  s->unwanted = s->refusal.has_value();
  if (s->unwanted) ++refused_;
  s->share = static_cast<std::uint32_t>((secret >> 32U) % 1'000);
  s->begun = now;
  by_pid_.emplace(pid, id);
  watch(id, *s, now);
  seats_.emplace(id, std::move(s));
}

void front_door::leave(worker_id id) {
  const auto it = seats_.find(id);
  if (it == seats_.end()) return;
  by_pid_.erase(it->second->session.pid());
  if (it->second->unwanted) --refused_;
  if (it->second->due) due_.erase({*it->second->due, id});
  seats_.erase(it);
}

void front_door::bytes(worker_id id, std::string_view data, steady_time now) {
  auto* s = find(id);
  if (s == nullptr || s->gone) return;
  s->session.bytes(data);
  after(id, *s, now);
}

bool front_door::may_read(worker_id id) const {
  const auto* s = find(id);
  return s == nullptr || (!s->gone && s->session.unread() < most_unread);
}

bool front_door::stalled(worker_id id) const {
  const auto* s = find(id);
  return s != nullptr && s->session.stalled();
}

void front_door::resume(worker_id id, steady_time now) {
  auto* s = find(id);
  if (s == nullptr || s->gone) return;
  s->session.resume();
  after(id, *s, now);
}

// What the session wants done, until it wants nothing more; what it says; whether wakes may go out now.
void front_door::after(worker_id id, seat& s, steady_time now) {
  while (!s.session.actions().empty()) {
    auto actions = std::exchange(s.session.actions(), {});
    for (auto& a : actions) carry_out(id, s, a, now);
  }
  // Who has ended its LISTENs has nothing to miss, and whatever it listens to from now on begins whole.
  if (s.lapsed && s.session.acks_held() == 0) forget_gap(s);
  if (long_outage_) judge_outage(id, s, now);
  if (s.gap_due && s.session.idle()) tell_gap(s);
  if (auto& out = s.session.output(); !out.empty()) actions_.emplace_back(say{id, std::exchange(out, {})});
  const auto keeps_now = (s.session.bytes_held() + 1'023) / 1'024 * 1'024;
  if (std::exchange(s.keeps, keeps_now) != keeps_now) actions_.emplace_back(keeps{id, keeps_now});
  const bool hold_now = !s.session.idle() || s.lapsed;
  if (std::exchange(s.held, hold_now) != hold_now) actions_.emplace_back(hold{id, hold_now});
  if (s.session.closed() && !std::exchange(s.gone, true))
    actions_.emplace_back(close{id, s.session.last_words().sqlstate, s.session.last_words().message});
  watch(id, s, now);
}

void front_door::carry_out(worker_id id, seat& s, door::session::action& a, steady_time now) {
  if (auto* x = std::get_if<door::session::subscribe>(&a)) {
    want(id, s, x->channel);
  } else if (auto* u = std::get_if<door::session::unsubscribe>(&a)) {
    if (u->channel == gap_channel)
      s.told_of_gaps = false;
    else
      actions_.emplace_back(unsubscribe{id, std::move(u->channel)});
  } else if (std::holds_alternative<door::session::ask_admission>(a)) {
    s.waiting = true;
    judge_admission(id, s, now);
  } else if (auto* n = std::get_if<door::session::not_served>(&a)) {
    actions_.emplace_back(not_served{id, std::move(n->why)});
  } else if (auto* c = std::get_if<door::session::cancel>(&a)) {
    const auto it = by_pid_.find(c->pid);
    auto* other = it == by_pid_.end() ? nullptr : find(it->second);
    if (other == nullptr || other == &s || other->session.secret() != c->secret) return;
    other->session.cancelled();
    after(it->second, *other, now);
  }
}

void front_door::want(worker_id id, seat& s, const std::string& channel) {
  if (channel == gap_channel) {
    s.told_of_gaps = true;
    return s.session.acked(channel);
  }
  if (channel.starts_with(reserved_prefix))
    return s.session.refused(
        channel, {"42501", "permission denied for channel \"" + channel + "\"",
                  "Channels that begin with \"pgwake.\" are closed to workers, but for \"pgwake.gap\"."});
  if (auto fault = channel_fault(channel)) return s.session.refused(channel, {"42602", *fault, {}});
  if (!s.access.allows(channel))
    return s.session.refused(channel, {"42501", "permission denied for channel \"" + channel + "\"",
                                       "The hub's setting `allow` does not let this user have it."});
  actions_.emplace_back(subscribe{id, channel});
}

bool front_door::outage_is_long(steady_time now) const {
  return outage_since_ && now >= *outage_since_ + limits_.grace;
}

void front_door::judge_admission(worker_id id, seat& s, steady_time now) {
  if (s.refusal) return finish(id, s, *std::exchange(s.refusal, std::nullopt), now);
  if (draining_ || (!healthy_ && outage_is_long(now))) return finish(id, s, not_now, now);
  if (!healthy_ || !facts_) return;  // until it is, or grace is over
  const auto& who = s.session.who();
  if (who.database != facts_->database)
    return finish(id, s,
                  {"3D000", "database \"" + who.database + "\" is not served here",
                   "This hub serves database \"" + facts_->database + "\"."},
                  now);
  s.waiting = false;
  const auto version = version_text(facts_->version);
  actions_.emplace_back(admitted{id, who.application_name});
  s.session.admit({"PostgreSQL " + version + " (served by pgwaked: LISTEN only)", facts_->database, who.user},
                  {{"server_version", version},
                   {"server_version_num", std::to_string(facts_->version)},
                   {"session_authorization", who.user}});
}

// FATAL, and the end.
void front_door::finish(worker_id id, seat& s, const door::sql_error& why, steady_time now) {
  if (s.session.closed()) return;
  const bool inside = s.session.admitted();
  s.waiting = false;
  s.leaves_at.reset();
  s.session.close(!inside && why.sqlstate == "57P01" ? not_now : why);
  after(id, s, now);
}

void front_door::forget_gap(seat& s) {
  s.lapsed = false;
  if (!draining_) s.leaves_at.reset();
}

// In a long outage: closed is who misses notifications, or waits for a LISTEN, as long as it does.
void front_door::judge_outage(worker_id id, seat& s, steady_time at) {
  if (draining_ || s.session.closed()) return;
  if (!s.misses_some() && !s.session.subscribing())
    s.leaves_at.reset();
  else if (!s.leaves_at)
    finish_at(id, s, at, gap_lasts);
}

void front_door::finish_at(worker_id id, seat& s, steady_time at, door::sql_error why) {
  s.leaves_at = at;
  s.leaves_with = std::move(why);
  watch(id, s, at);
}

void front_door::dismiss(worker_id id, const door::sql_error& why, steady_time now) {
  if (auto* s = find(id)) finish(id, *s, why, now);
}

void front_door::acked(worker_id id, const std::string& channel, steady_time now) {
  auto* s = find(id);
  if (s == nullptr || s->gone) return;
  s->session.acked(channel);
  after(id, *s, now);
}

void front_door::denied(worker_id id, const hub::denied& why, steady_time now) {
  auto* s = find(id);
  if (s == nullptr || s->gone) return;
  s->session.refused(why.channel,
                     {why.sqlstate.empty() ? sqlstate_of(why.why) : why.sqlstate, why.reason, {}});
  after(id, *s, now);
}

void front_door::served_by(upstream_facts facts, steady_time now) {
  const bool moved = facts_ && facts_->database != facts.database;
  facts_ = std::move(facts);
  if (!moved) return;
  for (auto& [id, s] : seats_)
    if (s->session.admitted())
      finish(id, *s, {"57P01", "terminating connection because the hub serves another database now", {}},
             now);
}

void front_door::lost(steady_time now) {
  health(false, now);
  for (auto& [id, s] : seats_) {
    if (s->session.acks_held() == 0) continue;
    s->lapsed = true;
    s->gap_due = false;
    if (!draining_) s->leaves_at.reset();
    after(id, *s, now);
  }
}

void front_door::health(bool healthy, steady_time now) {
  const bool before = std::exchange(healthy_, healthy);
  if (!healthy) {
    if (!outage_since_) outage_since_ = now;
    return;
  }
  if (before) return;
  outage_since_.reset();
  long_outage_ = false;
  const auto lapsed =
      std::count_if(seats_.begin(), seats_.end(), [](const auto& s) { return s.second->lapsed; });
  const auto spread = std::min(most_jitter, jitter_each * lapsed);
  for (auto& [id, s] : seats_) {
    if (s->waiting) judge_admission(id, *s, now);
    if (s->lapsed && s->told_of_gaps) {
      forget_gap(*s);
      s->gap_due = true;
    } else if (s->lapsed && !draining_) {
      finish_at(id, *s, now + spread * s->share / 1'000, gap_told);
    } else if (!draining_) {
      s->leaves_at.reset();  // its LISTEN is served now
    }
    after(id, *s, now);
  }
}

void front_door::tell_gap(seat& s) {
  s.gap_due = false;
  ++counts_.gap_notices;
  door::put_notification(s.session.output(), s.session.pid(), gap_channel, "reconnect");
}

void front_door::drain(millis grace, steady_time now) {
  draining_ = true;
  for (auto& [id, s] : seats_) {
    if (s->waiting) judge_admission(id, *s, now);
    if (!s->gone) finish_at(id, *s, now + grace * s->share * 4 / 5'000, stopping);
  }
}

// Its one deadline: the end of an unfinished message, or its own.
void front_door::watch(worker_id id, seat& s, steady_time now) {
  const auto read = std::exchange(s.read, s.session.messages());
  if (s.session.started()) {
    // What is kept waiting by the hub is no fault of the client's.
    const bool owes =
        s.session.mid_message() && !s.session.subscribing() && !s.session.stalled() && !s.waiting;
    if (!owes)
      s.begun.reset();
    else if (!s.begun || read != s.read)
      s.begun = now;
  }
  auto due = s.leaves_at;
  if (s.begun && !s.gone && (!due || *s.begun + limits_.frame_deadline < *due))
    due = *s.begun + limits_.frame_deadline;
  if (s.gone) due.reset();
  if (due == s.due) return;
  if (s.due) due_.erase({*s.due, id});
  s.due = due;
  if (due) due_.emplace(*due, id);
}

void front_door::tick(steady_time now) {
  while (!due_.empty() && due_.begin()->first <= now) {
    const auto id = due_.begin()->second;
    auto& s = *find(id);
    if (s.leaves_at && *s.leaves_at <= now) {
      const auto why = *s.leaves_with;
      if (!draining_ && s.misses_some()) ++counts_.gap_closes;
      finish(id, s, why, now);
    } else {
      finish(id, s, {"08P01", "a message was begun and not finished in time", {}}, now);
    }
  }
  if (long_outage_ || !outage_is_long(now)) return;
  long_outage_ = true;
  const auto spread = std::min(most_jitter, jitter_each * static_cast<millis::rep>(seats_.size()));
  for (auto& [id, s] : seats_) {
    if (s->waiting)
      judge_admission(id, *s, now);
    else
      judge_outage(id, *s, now + spread * s->share / 1'000);
  }
}

std::optional<steady_time> front_door::deadline() const {
  std::optional<steady_time> at;
  if (!due_.empty()) at = due_.begin()->first;
  if (outage_since_ && !long_outage_ && !seats_.empty()) {
    const auto end = *outage_since_ + limits_.grace;
    at = at ? std::min(*at, end) : end;
  }
  return at;
}

std::size_t front_door::listeners() const {
  return static_cast<std::size_t>(std::count_if(seats_.begin(), seats_.end(), [](const auto& s) {
    return !s.second->gone && s.second->session.acks_held() > 0;
  }));
}

std::pair<std::string_view, std::string> front_door::view(worker_id id) const {
  const auto* s = find(id);
  if (s == nullptr) return {};
  if (!s->session.started()) return {"starting", ""};
  if (s->waiting) return {"waiting", s->session.who().application_name};
  if (!s->session.admitted()) return {"leaving", s->session.who().application_name};
  auto name = s->session.application_name();
  if (s->lapsed) return {"held", std::move(name)};
  if (s->session.subscribing()) return {"listening", std::move(name)};
  switch (s->session.transaction()) {
    case door::transaction_state::open:
      return {"in transaction", std::move(name)};
    case door::transaction_state::failed:
      return {"failed transaction", std::move(name)};
    case door::transaction_state::idle:
      break;
  }
  return {"idle", std::move(name)};
}

}  // namespace pgwaked
