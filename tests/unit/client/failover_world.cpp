#include "unit/client/failover_world.hpp"

#include <variant>

#include "common/channel.hpp"

namespace pgwake::test {

using client::action;
using client::answer;
using client::event;

namespace {

const std::vector<std::string> channels = {"a", "b", "c", "d"};

// Whether a hub at its limit may be the end of it: elsewhere an own connection is had.
bool may_be_nacked(const client::failover_settings& s) { return s.limited || !s.may_listen(); }

}  // namespace

failover_world::failover_world(std::uint64_t seed, client::failover_settings settings, bool tracing)
    : settings_(settings),
      core_(std::move(settings), seed),
      jitter_(seed * 7919 + 1),
      now_(std::chrono::hours(1)),
      tracing_(tracing) {
  hub_session_.open = true;
  hub_healthy_ = true;
  core_.start(now_, actions_);
  carry_out();
}

void failover_world::note(std::string what) {
  if (!tracing_) return;
  const auto ms = std::chrono::duration_cast<millis>(now_.time_since_epoch()).count() - 3'600'000;
  trace_.push_back(std::to_string(ms) + " " + std::move(what));
  if (trace_.size() > 400) trace_.pop_front();
}

std::string failover_world::trace() const {
  std::string out;
  for (const auto& line : trace_) out += line + "\n";
  return out;
}

void failover_world::fail(std::string what) {
  note("FAULT " + what);
  faults_.push_back(std::move(what));
}

// The application

void failover_world::see(const event& e) {
  if (e.what == event::kind::state)
    return note(std::string("state ") + client::to_string(e.source) + (e.healthy ? " healthy " : " ill ") +
                e.reason);
  auto& b = books_[e.channel];
  if (e.what == event::kind::refused) {
    if (!may_be_nacked(settings_) || e.reason.rfind("limit", 0) != 0) return fail("refused " + e.channel);
    note("refused " + e.channel);
    b.subscribed = false;
    return;
  }
  if (e.gap != gap_cause::none) {
    note("gap " + e.channel);
    b.gap_since_last = true;
    return;
  }
  if (!e.payload) return;  // a reminder
  const int n = std::stoi(*e.payload);
  if (tracing_)
    note(std::string("event ") + client::to_string(e.source) + " " + e.channel + " " + std::to_string(n));
  if (n <= b.last) return fail(e.channel + ": " + std::to_string(n) + " after " + std::to_string(b.last));
  if (b.subscribed && !b.gap_since_last && n > std::max(b.last, b.since) + 1)
    fail(e.channel + ": " + std::to_string(n) + " after " + std::to_string(b.last) + " and " +
         std::to_string(b.since) + " without a gap");
  b.last = n;
  b.gap_since_last = false;
}

void failover_world::take_events() {
  for (event e; queue_.pop(e);) see(e);
}

void failover_world::application() {
  const auto& channel = channels[static_cast<std::size_t>(below(static_cast<int>(channels.size())))];
  auto& b = books_[channel];
  if (b.subscribed && chance(0.2)) {
    take_events();
    note("unsubscribe " + channel);
    b = {false, b.last, 0, false};
    core_.unsubscribe(channel, now_, actions_);
    carry_out();
  } else {
    const auto id = ++requests_;
    asking_[id] = channel;
    note("subscribe " + channel + " #" + std::to_string(id));
    std::optional<steady_time> until;
    if (chance(0.7)) until = now_ + millis{200 + below(5'000)};
    core_.subscribe(id, channel, until, now_, actions_);
    carry_out();
  }
}

// PostgreSQL

void failover_world::commit(const std::string& channel, std::string payload, int number) {
  log_.push_back({channel, std::move(payload), number});
}

void failover_world::publish() {
  const auto& channel = channels[static_cast<std::size_t>(below(static_cast<int>(channels.size())))];
  const int n = ++numbers_[channel];
  commit(channel, std::to_string(n), n);
}

// Carrying out

void failover_world::carry_out() {
  while (!actions_.empty()) {
    auto batch = std::exchange(actions_, {});
    for (auto& a : batch) one(a);
  }
}

void failover_world::one(action& a) {
  if (auto* d = std::get_if<client::deliver>(&a)) {
    queue_.push(std::move(d->what));
    if (chance(0.7)) take_events();
  } else if (auto* f = std::get_if<client::forget>(&a)) {
    queue_.forget(f->channel);
  } else if (auto* s = std::get_if<client::answered>(&a)) {
    const auto channel = asking_.at(s->request);
    asking_.erase(s->request);
    note("answer #" + std::to_string(s->request) + " " + channel + " " +
         std::to_string(static_cast<int>(s->how.how)));
    auto& b = books_[channel];
    if (s->how.how == answer::verdict::nack &&
        (s->how.why != code::limit || !(may_be_nacked(settings_) || !own_allowed_)))
      fail("nack " + channel + " " + s->how.reason);
    if (s->how.how == answer::verdict::nack) b.subscribed = false;
    if (s->how.how == answer::verdict::ok && !b.subscribed) {
      take_events();
      b.subscribed = true;
      b.since = numbers_[channel];
    }
  } else if (std::get_if<client::connect_hub>(&a)) {
    if (linked_) fail("two links to the hub");
    if (!hub_runs_) {
      core_.hub_failed("refused", false, now_, actions_);
      return;
    }
    linked_ = true;
    from_hub_.clear();
    to_hub_.clear();
    hub_subs_.clear();
    hub_unanswered_.clear();
    hub_gaps_.clear();
    token_ = "token" + std::to_string(++hub_generation_);
    core_.hub_connected(now_, actions_);
  } else if (std::get_if<client::close_hub>(&a)) {
    linked_ = false;
    from_hub_.clear();
    to_hub_.clear();
    hub_subs_.clear();
    hub_unanswered_.clear();
    hub_gaps_.clear();
  } else if (auto* m = std::get_if<client::send_hub>(&a)) {
    if (linked_) to_hub_.push_back(std::move(m->message));
  } else if (std::get_if<client::start_own>(&a)) {
    if (own_started_) fail("two own connections");
    if (settings_.limited && !slot_) fail("an own connection without a slot");
    own_started_ = true;
    own_ = {};
    own_wanted_.clear();
    own_wants_.clear();
    own_says_.clear();
    own_opens_at_ = now_ + millis{below(50)};
  } else if (std::get_if<client::stop_own>(&a)) {
    own_started_ = false;
    own_ = {};
  } else if (auto* w = std::get_if<client::want_own>(&a)) {
    own_wanted_.insert(w->channel);
    if (own_.open && own_.listening.contains(w->channel))
      core_.own_activated(w->channel, now_, actions_);
    else if (own_.open)
      own_wants_.push_back(w->channel);
  } else if (auto* u = std::get_if<client::unwant_own>(&a)) {
    own_wanted_.erase(u->channel);
  } else if (auto* y = std::get_if<client::say_own>(&a)) {
    own_says_.push_back(y->payload);
  } else if (std::get_if<client::acquire_slot>(&a)) {
    slot_ = chance(0.5);
    core_.slot(slot_, slot_ ? "" : "none free", now_, actions_);
  } else if (std::get_if<client::release_slot>(&a)) {
    if (!slot_) fail("a slot released that was not held");
    slot_ = false;
  }
}

// Time and trouble

void failover_world::hurt() {
  switch (below(11)) {
    case 0:
      if (hub_runs_ && chance(0.5)) lose_hub();
      break;
    case 1:
      if (!hub_runs_) {
        note("hub: starts");
        hub_runs_ = true;
        hub_session_.open = false;
        hub_back_at_ = now_ + millis{below(100)};
      }
      break;
    case 2:
      if (hub_runs_ && hub_session_.open) {
        note("hub: upstream lost");
        hub_session_ = {};
        hub_healthy_ = false;
        hub_back_at_ = now_ + millis{below(chance(0.3) ? 8'000 : 500)};
        for (const auto& [q, active] : hub_subs_)
          if (active == 1) hub_gaps_.insert(q);
        hub_full_ = chance(0.4);
        hub_to_client(hub_status());
      }
      break;
    case 3:
      note(hub_frozen_ ? "hub: thaws" : "hub: freezes");
      hub_frozen_ = !hub_frozen_;
      break;
    case 4:
      if (hub_runs_ && !hub_draining_ && chance(0.5)) {
        note("hub: drains");
        hub_draining_ = true;
        hub_stops_at_ = now_ + millis{below(3'000)};
        hub_to_client(hub_status());
      }
      break;
    case 5:
      if (own_.open) {
        note("own: lost");
        own_ = {};
        own_opens_at_ = now_ + millis{below(chance(0.2) ? 5'000 : 100)};
        core_.own_lost("lost", now_, actions_);
        carry_out();
      }
      break;
    case 6:
      own_allowed_ = chance(0.7);
      break;
    case 7:
      if (linked_ && chance(0.3)) {
        note("hub: evicts");
        // What was on its way is lost with the connection.
        from_hub_.resize(
            from_hub_.empty() ? 0 : static_cast<std::size_t>(below(static_cast<int>(from_hub_.size()))));
        from_hub_.push_back({status{}, true});
        linked_ = false;
        hub_subs_.clear();
        hub_unanswered_.clear();
        hub_gaps_.clear();
        to_hub_.clear();
      }
      break;
    case 8:
      hub_limited_ = !hub_limited_;
      note(hub_limited_ ? "hub: at its limit" : "hub: has room again");
      break;
    default:
      break;
  }
}

// A core whose deadline stays due would have its shell turn without end.
void failover_world::timers() {
  for (int i = 0; tick_if_due(); ++i)
    if (i > 3) return fail("time stands still");
}

// True: it was due.
bool failover_world::tick_if_due() {
  const auto at = core_.deadline();
  const bool due = at && *at <= now_;
  if (!due && !chance(0.02)) return false;
  const bool quiet = from_hub_.empty() && (!own_.open || own_.place == log_.size() || chance(0.5));
  core_.tick(now_, quiet, actions_);
  carry_out();
  // The hub's silence, judged only after a look at a socket that had nothing, may stay due.
  return due && quiet;
}

void failover_world::step(bool faults) {
  now_ += millis{below(faults && chance(0.01) ? 2'000 : 12)};
  if (faults && chance(0.02)) hurt();
  if (chance(0.4)) publish();
  if (chance(faults ? 0.02 : 0.0)) application();
  hub_turn();
  if (chance(0.7)) client_reads();
  if (chance(0.7)) own_turn();
  timers();
  if (chance(0.5)) take_events();
}

void failover_world::run(int steps) {
  for (int i = 0; i < steps && faults_.empty(); ++i) step(true);
}

void failover_world::settle() {
  note("---- no more faults");
  hub_frozen_ = hub_limited_ = false;
  own_allowed_ = true;
  if (!hub_runs_) {
    hub_runs_ = true;
    hub_session_.open = false;
  }
  for (int i = 0; i < 30'000 && faults_.empty(); ++i) {
    if (!hub_runs_) {
      hub_runs_ = true;
      hub_session_.open = false;
    }
    step(false);
    const bool home = core_.source() == client::side::hub || settings_.policy == client::policy::direct ||
                      !settings_.reattach;
    const bool well = (core_.healthy() && home) || (core_.channels() == 0 && home);
    if (i > 600 && asking_.empty() && well && !core_.handing_over()) return;
  }
  if (faults_.empty())
    fail(std::string("it did not settle; source ") + client::to_string(core_.source()) + " " +
         core_.reason());
}

void failover_world::close_books() {
  for (const auto& channel : channels) {
    const int n = ++numbers_[channel];
    commit(channel, std::to_string(n), n);
  }
  const auto done = [&] {
    take_events();
    for (const auto& channel : channels)
      if (books_[channel].subscribed && books_[channel].last != numbers_[channel]) return false;
    return true;
  };
  for (int i = 0; i < 3'000 && faults_.empty(); ++i) {
    now_ += millis{5};
    hub_turn();
    client_reads();
    own_turn();
    timers();
    if (done()) return;
  }
  for (const auto& channel : channels)
    if (faults_.empty() && books_[channel].subscribed && books_[channel].last != numbers_[channel])
      fail(channel + " is deaf: " + std::to_string(books_[channel].last) + " of " +
           std::to_string(numbers_[channel]));
}

}  // namespace pgwake::test
