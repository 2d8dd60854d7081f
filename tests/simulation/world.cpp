#include "simulation/world.hpp"

#include <algorithm>

namespace pgwake::simulation {

using pgwaked::engine;
using namespace std::chrono_literals;

engine::config world::configure(random_source& random) {
  engine::config c;
  c.queue_template = "q_{}";
  c.hub_uuid = "hub";
  c.version = "sim";
  c.upstream.self_check = "self";
  c.upstream.listen.batch = random.pick({1UL, 2UL, 3UL, 1000UL, 1000UL});
  c.upstream.listen.linger = random.pick({0ms, 100ms, 2000ms, 30'000ms});
  c.limits.outbox_max_bytes = random.pick({600UL, 3'000UL, 100'000UL});
  c.limits.outbox_max_frames = random.pick({6UL, 20UL, 1'000UL});
  c.limits.hard_factor = random.pick({2UL, 4UL});
  c.limits.outbox_total_max_bytes = random.pick({5'000UL, 16'000UL, 1'000'000UL});
  c.limits.control_max_bytes = random.pick({800UL, 4'000UL, 100'000UL});
  c.limits.max_channels = random.pick({3UL, 6UL, 100UL, 100UL});
  c.limits.channels_of_user = {random.pick({2UL, 5UL, 100UL, 100UL}), 100};
  c.own_uid = 1;
  c.front_door_grace = random.pick({15'000ms, 15'000ms, 2'000ms});
  return c;
}

world::world(std::uint64_t seed, tally& counts, bool tracing)
    : tally_(counts),
      tracing_(tracing),
      seed_(seed),
      random_(seed ^ 0x5eedULL),
      config_(configure(random_)),
      engine_(config_, seed),
      database_(
          random_.pick({database::encoding::utf8, database::encoding::utf8, database::encoding::utf8,
                        database::encoding::wide, database::encoding::latin1, database::encoding::ascii})) {
  pool_ = {"q_a", "q_b", "q_c", "Q", "q_x\"; DROP TABLE t; --", "q_select now()"};
  if (random_.chance(50)) pool_.resize(random_.between(1, 5));
  if (database_.in() == database::encoding::wide)
    for (const std::size_t n : {14U, 15U, 16U, 17U}) {
      std::string name = "q_";
      for (std::size_t i = 0; i < n; ++i) name += "日";
      pool_.push_back(name);
    }
  if (database_.in() == database::encoding::wide)
    pool_.insert(pool_.end(), {"q_\xC2\xA6", "q_\xEF\xBF\xA4"});  // one channel to the server
  if (database_.in() == database::encoding::latin1) pool_.insert(pool_.end(), {"q_日本", "q_é"});
  one_slot_ = random_.chance(20);
  reads_small_ = random_.chance(50);
  now_ = steady_time{} + 1h;
  database_.on_commit = [this](const auto& n) { committed(n); };
  engine_.start(now_);
  after_call();
  act();
}

// Each seed has its own mix: some kinds of operation not at all, others often.
std::vector<operation> world::plan(std::uint64_t seed) {
  static constexpr std::size_t kinds = static_cast<std::size_t>(operation::kind::count);
  static constexpr unsigned usual[kinds] = {14, 16, 6, 2,  4,  5, 4, 4, 3, 16, 9, 4, 2, 3, 1, 1, 1, 2, 1, 14,
                                            2,  4,  5, 20, 14, 7, 2, 5, 3, 2,  3, 2, 1, 3, 1, 1, 1, 1, 1};
  random_source random(seed);
  unsigned weights[kinds];
  unsigned total = 0;
  const bool calm = random.chance(30);  // no outages: deep queues and long lives instead
  for (std::size_t i = 0; i < kinds; ++i) {
    const auto dice = random.below(10);
    weights[i] = dice < 2 ? 0 : dice < 8 ? usual[i] * 2 : usual[i] * 6;
    const auto what = static_cast<operation::kind>(i);
    if (weights[i] == 0 && (what == operation::kind::join_v1 || what == operation::kind::sub ||
                            what == operation::kind::start || what == operation::kind::wait))
      weights[i] = usual[i];
    if (calm && what >= operation::kind::crash) weights[i] = 0;
    total += weights[i];
  }
  std::vector<operation> out;
  out.reserve(200);
  out.push_back({operation::kind::wait, random.word()});
  const auto length = random.pick({60UL, 150UL, 400UL});
  for (std::size_t i = 0; i < length; ++i) {
    const auto k = random.weighted(weights, total);
    out.push_back({static_cast<operation::kind>(k), random.word()});
  }
  return out;
}

void world::run(const std::vector<operation>& operations) {
  for (const auto& op : operations) perform(op);
  random_ = random_source(seed_ ^ 0xE4dULL);
  heal();
  let_go();
  if (engine_.the_hub().counted().coalesced > 0) tally_.saw(rare::durable_coalesced);
  ++tally_.seeds;
  tally_.operations += operations.size();
  tally_.notifications += database_.commits();
}

void world::perform(const operation& op) {
  random_ = random_source(op.seed);
  using kind = operation::kind;
  switch (op.what) {
    case kind::breathe:
      note("breathe");
      advance(millis(random_.below(20)));
      break;
    case kind::wait:
      note("wait");
      advance(millis(random_.below(800)));
      break;
    case kind::wait_long:
      note("wait long");
      advance(millis(random_.pick({1'500UL, 3'000UL, 5'000UL, 11'000UL, 16'000UL, 40'000UL}) +
                     random_.below(3'000)));
      break;
    default:
      upstream_operation(op);
      worker_operation(op);
      driver_operation(op);
      break;
  }
  settle(random_.chance(20));
}

void world::schedule(millis in, std::function<void()> what) {
  timers_.push({now_ + in, random_.word(), std::move(what)});
}

void world::advance(millis time) {
  const auto target = now_ + time;
  for (int spins = 0;; ++spins) {
    if (spins > 20'000) broken("time stands still: the engine's deadline " + text(spins) + " times in a row");
    auto next = target;
    if (!timers_.empty()) next = std::min(next, timers_.top().at);
    if (!link_.arriving.empty()) next = std::min(next, link_.arriving.front().at);
    if (const auto due = engine_.deadline()) next = std::min(next, *due);
    now_ = std::max(now_, next);
    settle(random_.chance(10));
    if (now_ >= target) break;
    // A timer that was skipped fires a little late.
    if (const auto due = engine_.deadline(); due && *due <= now_) now_ = std::min(target, now_ + 3ms);
  }
}

void world::settle(bool may_skip_timers) {
  for (int turns = 0; turn(may_skip_timers); ++turns)
    if (turns > 10'000) broken("the hub never comes to rest");
  check_bounds();
  if (++steps_ % 8 == 0) check_references();
  check_health();
  for (auto& w : workers_) {
    if (steps_ % 16 == 0) check_coalescing(w);
    check_settled(w);
  }
  for (auto& c : drivers_) check_settled(c);
}

// One round of everything that may happen now; false when nothing did.
bool world::turn(bool may_skip_timers) {
  bool did = false;
  while (!timers_.empty() && timers_.top().at <= now_) {
    const auto what = timers_.top().what;
    timers_.pop();
    what();
    did = true;
  }
  did = read_pass() || did;
  if (engine_.busy()) {
    take_turn();
    did = true;
  }
  for (auto it = workers_.begin(); it != workers_.end();) {
    auto& w = *it++;  // it may go
    did = exchange(w) || did;
  }
  for (auto it = drivers_.begin(); it != drivers_.end();) {
    auto& c = *it++;
    did = exchange(c) || did;
  }
  const auto due = engine_.deadline();
  if (!may_skip_timers && due && *due <= now_) {
    const bool quiet = !link_.has_arrived(now_);
    engine_.tick(now_, quiet);
    after_call();
    act();
    did = true;  // settle() counts: a timer that never goes away is a hot loop
  }
  std::erase_if(workers_, [](const auto& w) { return !w.open && w.pipe.empty(); });
  std::erase_if(drivers_, [](const auto& c) { return !c.open && c.pipe.empty(); });
  return did;
}

// Everything is well again and has the time it needs: then nothing may be owed to anyone.
void world::heal() {
  note("-- heal");
  server_up_ = true;
  refuse_login_ = pooler_ = slow_ = deaf_next_ = false;
  database_.recovery = false;
  database_.fail_next.clear();
  std::erase_if(database_.bad_channels, [](const auto& bad) { return !bad.second.starts_with("42"); });
  for (auto& w : workers_) w.stalled = w.lazy = false;
  for (auto& c : drivers_) c.stalled = false;
  healed_ = true;
  const auto is_done = [this](const door_client& c) {
    return is_settled(c) && std::none_of(c.channels.begin(), c.channels.end(),
                                         [](const auto& p) { return p.second.covered && p.second.owes_gap; });
  };
  const auto done = [this](const auto& w) { return w.doomed || w.holds_frame ? !w.open : is_settled(w); };
  for (int i = 0; i < 150; ++i) {
    advance(1s);
    if (engine_.the_upstream().healthy() && !link_.black_hole &&
        std::all_of(workers_.begin(), workers_.end(), done) &&
        std::all_of(drivers_.begin(), drivers_.end(), is_done))
      break;
  }
  overdue_ = true;
  if (!engine_.the_upstream().healthy())
    broken("not healthy again 150 s after all trouble was over: " + engine_.the_upstream().reason());
  for (auto& w : workers_) {
    if (w.doomed || w.holds_frame) {
      if (w.open) broken("worker " + text(w.id) + " is still served after it broke the protocol");
      continue;
    }
    if (!is_settled(w)) broken("worker " + text(w.id) + " does not settle");
    check_settled(w);
  }
  for (auto& c : drivers_) {
    if (!is_settled(c)) broken("driver " + text(c.id) + " does not settle");
    check_settled(c);
  }
  check_references();
}

void world::let_go() {
  note("-- let go");
  while (!drivers_.empty()) driver_leaves(drivers_.front());
  while (!workers_.empty()) die(workers_.front());
  for (int i = 0; i < 40; ++i) advance(1s);
  const auto& plan = engine_.the_upstream().plan();
  if (!engine_.members().empty()) broken("members are left after everyone is gone");
  if (engine_.the_hub().worker_count() != 0) broken("the hub's workers are left after everyone is gone");
  if (engine_.the_hub().channel_count() != 0) broken("channels are left after everyone is gone");
  if (engine_.the_hub().held_bytes() != 0) broken("outbox bytes are left after everyone is gone");
  if (plan.wanted_count() != 0) broken("channels are wanted after everyone is gone");
  if (plan.held_count() != 0) broken("channels are held after everyone is gone and the linger is over");
  if (!link_.server || link_.server->listening != std::set<std::string>{"pgwake.fence"})
    broken("S7: the server still listens for us after everyone is gone");
  engine_.stop(now_);
  after_call();
  act();
  if (link_.client == upstream_link::view::open) broken("a session is left after stop");
  if (engine_.deadline()) {
    now_ += 1h;
    engine_.tick(now_, true);
    for (const auto& a : engine_.actions())
      if (std::holds_alternative<engine::connect>(a)) broken("a stopped hub connects");
  }
}

void world::trace_line(const std::string& line) {
  const auto ms = std::chrono::duration_cast<millis>(now_ - steady_time{} - 1h).count();
  auto stamp = std::to_string(ms);
  stamp.insert(0, stamp.size() < 7 ? 7 - stamp.size() : 0, ' ');
  trace_.push_back(stamp + " ms  " + line);
}

void world::broken(const std::string& what) const { throw violation(what); }

}  // namespace pgwake::simulation
