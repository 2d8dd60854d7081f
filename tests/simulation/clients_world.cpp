#include "simulation/clients_world.hpp"

#include <algorithm>

namespace pgwake::simulation {

using namespace std::chrono_literals;
using kind = clients_world::operation::kind;

namespace {

client::failover_settings quick(std::size_t number, random_source& random) {
  client::failover_settings s;
  s.name = "client" + std::to_string(number);
  s.unhealthy_grace = 800ms;
  s.return_delay = 300ms;
  s.return_delay_cap = 2'000ms;
  s.handover_deadline = random.pick({1'500ms, 5'000ms});
  s.hub_retry_slow = 3'000ms;
  s.yield_spread = random.pick({500ms, 4'000ms});
  return s;
}

secret_source secrets(std::uint64_t seed) {
  return [source = std::make_shared<random_source>(seed)] { return source->word(); };
}

upstream::settings own_settings(const std::string& name) {
  upstream::settings s;
  s.self_check = name + ".check";
  return s;
}

}  // namespace

clients_world::clients_world(std::uint64_t seed, tally& counts, bool tracing)
    : tally_(counts), tracing_(tracing), seed_(seed), random_(seed ^ 0xC11E5ULL) {
  now_ = steady_time{} + 1h;
  hub_.name = "hub";
  hub_.connected = [this](const auto& info) { engine_->connected(info, now_), hub_acts(); };
  hub_.failed = [this](bool full) {
    if (full) tally_.saw(rare::hub_found_full);
    engine_->connect_failed({.message = full ? "full" : "no", .full = full}, now_), hub_acts();
  };
  hub_.heard = [this] { engine_->heard(now_); };
  hub_.result = [this](const auto& r) { engine_->result(r, now_), hub_acts(); };
  hub_.notification = [this](const auto& n) {
    engine_->notification(n.channel, n.payload, n.pid, now_), hub_acts();
  };
  hub_.lost = [this] { engine_->session_lost("gone", now_), hub_acts(); };
  start_hub();
  const auto count = random_.between(1, 3);
  if (random_.chance(40)) most_slots_ = random_.between(1, count);
  for (std::size_t i = 0; i < count; ++i) {
    auto& c = clients_.emplace_back();
    auto settings = quick(i + 1, random_);
    c.session.name = settings.name;
    settings.limited = most_slots_ != SIZE_MAX;
    settings.secret = secrets(seed * 8 + i);
    c.machine = std::make_unique<client::machine>(settings, own_settings(settings.name), seed * 4 + i);
    auto& m = *c.machine;
    c.session.connected = [this, &c, &m](const auto& info) {
      m.session_opened(info, now_, c.actions), client_acts(c);
    };
    c.session.failed = [this, &c, &m](bool full) {
      m.session_failed({.message = full ? "full" : "no", .full = full}, now_, c.actions), client_acts(c);
    };
    c.session.heard = [this, &m] { m.session_heard(now_); };
    c.session.result = [this, &c, &m](const auto& r) {
      m.session_result(r, now_, c.actions), client_acts(c);
    };
    c.session.notification = [this, &c, &m](const auto& n) {
      m.session_notification(n.pid, n.channel, n.payload, now_, c.actions), client_acts(c);
    };
    c.session.lost = [this, &c, &m] {
      tally_.saw(rare::own_session_lost);
      m.session_lost("gone", now_, c.actions), client_acts(c);
    };
    m.start(now_, c.actions);
    client_acts(c);
  }
}

std::vector<clients_world::operation> clients_world::plan(std::uint64_t seed) {
  static constexpr std::size_t kinds = static_cast<std::size_t>(kind::count);
  static constexpr unsigned usual[kinds] = {24, 8, 6, 10, 3, 30, 14, 8, 2, 2, 6, 2,
                                            6,  1, 4, 2,  2, 1,  1,  3, 3, 3, 2};
  random_source random(seed);
  unsigned weights[kinds];
  unsigned total = 0;
  for (std::size_t i = 0; i < kinds; ++i) {
    const auto dice = random.below(10);
    weights[i] = dice < 2 && i > 7 ? 0 : dice < 8 ? usual[i] : usual[i] * 3;
    total += weights[i];
  }
  std::vector<operation> out = {{kind::wait, random.word()}, {kind::subscribe, random.word()}};
  for (auto n = random.pick({40UL, 120UL, 250UL}); n > 0; --n) {
    const auto k = random.weighted(weights, total);
    out.push_back({static_cast<kind>(k), random.word()});
  }
  return out;
}

void clients_world::run(const std::vector<operation>& operations) {
  for (const auto& op : operations) perform(op);
  random_ = random_source(seed_ ^ 0xE4dULL);
  heal();
  close_books();
  for (const auto& c : clients_) {
    const auto& counts = c.machine->core().counts();
    if (counts.handovers > 0) tally_.saw(rare::handover_exact);
    if (counts.aborted > 0) tally_.saw(rare::handover_aborted);
    if (counts.falls > 0) tally_.saw(rare::fell_back);
    if (counts.yielded > 0) tally_.saw(rare::yielded_to_hub);
  }
  ++tally_.seeds;
  tally_.operations += operations.size();
  tally_.notifications += database_.commits();
}

void clients_world::perform(const operation& op) {
  random_ = random_source(op.seed);
  switch (op.what) {
    case kind::publish:
      publish(false);
      break;
    case kind::publish_durable:
      publish(true);
      break;
    case kind::publish_many:
      for (int i = 0; i < 20; ++i) publish(random_.chance(20));
      break;
    case kind::subscribe:
    case kind::unsubscribe: {
      auto it = clients_.begin();
      std::advance(it, static_cast<std::ptrdiff_t>(random_.below(clients_.size())));
      application(*it, op.what == kind::subscribe);
      break;
    }
    case kind::breathe:
      advance(millis(random_.below(15)));
      break;
    case kind::wait:
      advance(millis(random_.below(400)));
      break;
    case kind::wait_long:
      advance(millis(random_.pick({1'000UL, 3'000UL, 8'000UL}) + random_.below(1'000)));
      break;
    default:
      trouble(op.what);
      break;
  }
  settle();
}

void clients_world::trouble(kind what) {
  switch (what) {
    case kind::kill_hub:
      if (engine_) tally_.saw(rare::hub_killed);
      return kill_hub();
    case kind::drain_hub:
      if (!engine_ || stops_at_) return;
      note("hub drains");
      stops_at_ = now_ + 3s;
      engine_->drain(3s, now_);
      return hub_acts();
    case kind::start_hub:
      return start_hub();
    case kind::freeze_hub:
      note("hub stands still");
      if (engine_) tally_.saw(rare::hub_frozen);
      hub_.frozen = true;
      return;
    case kind::thaw_hub:
      hub_.frozen = false;
      return note("hub goes on");
    case kind::crash:
      note("PostgreSQL crashes");
      server_up_ = false;
      end_server_session(hub_);
      for (auto& c : clients_) end_server_session(c.session);
      return;
    case kind::start:
      server_up_ = true;
      return note("PostgreSQL is up");
    case kind::terminate_hub:
      return end_server_session(hub_);
    case kind::terminate_own:
      for (auto& c : clients_)
        if (random_.chance(50)) end_server_session(c.session);
      return;
    case kind::black_hole:
      note("the network between hub and PostgreSQL swallows everything");
      hub_.link.black_hole = hub_.link.client == upstream_link::view::open;
      return;
    case kind::slow:
      slow_ = !slow_;
      return;
    case kind::clog:
      return clog();
    case kind::blink:  // its session is lost and back before its workers have read a word of it
      clog();
      return end_server_session(hub_);
    case kind::attack:
      attacked_until_ = now_ + millis(random_.below(3'000));
      return attack();
    case kind::few_connections:
      most_sessions_ = random_.chance(30) ? SIZE_MAX : random_.between(1, clients_.size());
      return note("connections to be had: ", text(most_sessions_));
    default:
      return;
  }
}

void clients_world::publish(bool durable) {
  if (!server_up_) return;
  const auto& channel = random_.pick(channels_);
  const auto number = durable ? 0 : ++numbers_[channel];
  note("commit ", channel, durable ? "" : " " + text(number));
  database_.commit({{channel, durable ? "" : text(number)}}, 7);
  for (auto& c : clients_)
    if (durable && c.books[channel].subscribed) c.books[channel].dirty = true;
  push_notifications(hub_);
  for (auto& c : clients_) push_notifications(c.session);
}

// The sockets of some workers are full for a while.
void clients_world::clog() {
  for (auto& c : clients_)
    if (random_.chance(60)) c.clogged_until = now_ + millis(random_.below(1'200));
  note("sockets are full");
}

// A role of the database with CONNECT alone: it sees all that goes over the fence channel, repeats some of
// it, guesses what comes next, and floods.
void clients_world::attack() {
  if (!server_up_ || now_ >= attacked_until_) return;
  std::vector<std::string> seen;
  for (auto i = database_.commits(); i > 0 && seen.size() < 6; --i)
    if (const auto& n = database_.at(i - 1); n.channel == "pgwake.fence" && n.pid != 666)
      seen.push_back(n.payload);
  for (auto n = seen.empty() ? 0 : random_.pick({1UL, 1UL, 3UL, 12UL}); n > 0; --n) {
    auto payload = random_.pick(seen);
    const auto colon = payload.rfind(':');
    const bool repeats = random_.chance(50) || colon == std::string::npos;
    if (!repeats) {
      const auto number = std::stoull(payload.substr(colon + 1));
      payload = payload.substr(0, colon + 1) + text(number + random_.between(1, 3));
    }
    tally_.saw(repeats ? rare::fence_repeated : rare::fence_foreseen);
    note("a stranger says ", payload);
    database_.commit({{"pgwake.fence", payload}}, 666);
  }
  push_notifications(hub_);
  for (auto& c : clients_) push_notifications(c.session);
  schedule(millis(random_.pick({0UL, 1UL, 3UL, 20UL, 60UL})), [this] { attack(); });
}

void clients_world::schedule(millis in, std::function<void()> what) {
  timers_.push({now_ + in, random_.word(), std::move(what)});
}

void clients_world::advance(millis time) {
  const auto target = now_ + time;
  for (int rounds = 0; now_ < target; ++rounds) {
    if (rounds > 20'000) throw violation("time stands still");
    auto next = target;
    const auto sooner = [&next](const std::optional<steady_time>& at) {
      if (at) next = std::min(next, *at);
    };
    if (!timers_.empty()) sooner(timers_.top().at);
    const auto look = [&](const party& p) {
      if (!p.frozen && !p.link.arriving.empty()) sooner(p.link.arriving.front().at);
    };
    look(hub_);
    if (engine_ && !hub_.frozen) sooner(engine_->deadline());
    if (stops_at_ && !hub_.frozen) sooner(stops_at_);
    for (const auto& c : clients_) {
      look(c.session);
      sooner(c.machine->deadline());
      if (c.clogged_until > now_) sooner(c.clogged_until);
    }
    now_ = std::max(now_, next);
    settle();
  }
}

void clients_world::settle() {
  for (int turns = 0; turn(); ++turns)
    if (turns > 10'000) throw violation("it never comes to rest");
}

bool clients_world::turn() {
  bool did = false;
  while (!timers_.empty() && timers_.top().at <= now_) {
    const auto what = timers_.top().what;
    timers_.pop();
    what();
    did = true;
  }
  did = hub_turn() || did;
  for (auto& c : clients_) did = client_turn(c) || did;
  return did;
}

void clients_world::heal() {
  note("-- heal");
  healed_ = true;
  server_up_ = true;
  slow_ = hub_.frozen = false;
  most_sessions_ = std::max(most_sessions_, clients_.size());  // in the hub's way stand clients alone
  attacked_until_ = {};
  for (auto& c : clients_) c.clogged_until = {};
  const auto well = [](const model_client& c) {
    const auto& core = c.machine->core();
    return core.source() == client::side::hub && core.healthy() && !core.handing_over() && c.asking.empty();
  };
  for (int i = 0; i < 240; ++i) {
    start_hub();
    advance(500ms);
    if (engine_ && engine_->the_upstream().healthy() && !stops_at_ && !hub_.link.black_hole &&
        std::all_of(clients_.begin(), clients_.end(), well))
      break;
  }
  for (const auto& c : clients_)
    if (!well(c))
      throw violation("C2: " + c.session.name + " is not back on the hub 120 s after all trouble was over; " +
                      client::to_string(c.machine->core().source()) + " " + c.machine->core().reason());
}

void clients_world::close_books() {
  for (int i = 0; i < 4; ++i) advance(500ms);
  for (const auto& channel : channels_) {
    database_.commit({{channel, text(++numbers_[channel])}}, 7);
    push_notifications(hub_);
    for (auto& c : clients_) push_notifications(c.session);
  }
  for (int i = 0; i < 4; ++i) advance(500ms);
  for (auto& c : clients_) {
    hand_out(c);
    for (const auto& [channel, b] : c.books) {
      if (!b.subscribed) continue;
      if (b.last != numbers_[channel])
        throw violation("C2: " + c.session.name + " is deaf on " + channel + ": " + text(b.last) + " of " +
                        text(numbers_[channel]));
      if (b.dirty)
        throw violation("C5: " + c.session.name + ", " + channel + ": a durable change was never told");
    }
    if (c.session.link.client != upstream_link::view::none)
      throw violation("C6: " + c.session.name + " keeps its own session while the hub serves it");
  }
}

void clients_world::trace_line(const std::string& line) {
  const auto ms = std::chrono::duration_cast<millis>(now_ - steady_time{} - 1h).count();
  auto stamp = std::to_string(ms);
  stamp.insert(0, stamp.size() < 7 ? 7 - stamp.size() : 0, ' ');
  trace_.push_back(stamp + " ms  " + line);
}

}  // namespace pgwake::simulation
