// Drivers at the front door, and what is promised to them.
#include <algorithm>
#include <optional>

#include "common/channel.hpp"
#include "simulation/world.hpp"

namespace pgwake::simulation {

using namespace std::chrono_literals;
using pgwaked::door::body_reader;

namespace {

constexpr const char* gap_channel = "pgwake.gap";

std::string number(std::uint32_t value) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8)
    out += static_cast<char>(value >> static_cast<unsigned>(shift));
  return out;
}

std::string whole(const std::string& type, const std::string& body) {
  return type + number(static_cast<std::uint32_t>(body.size() + 4)) + body;
}

std::string sqlstate_of(std::string_view error) {
  body_reader fields(error);
  while (const auto field = fields.byte()) {
    const std::string value(fields.text());
    if (field == 'C') return value;
  }
  return "";
}

}  // namespace

door_client* world::find_at_door(pgwaked::worker_id id) {
  for (auto& c : drivers_)
    if (c.id == id && c.open) return &c;
  return nullptr;
}

void world::join_door() {
  if (drivers_.size() >= 4) return;
  door_client c;
  c.capacity = random_.pick({40UL, 300UL, 4'000UL});
  c.id = engine_.joined_at_door({1, 36, 36}, random_.word(), now_);
  note("driver ", text(c.id), " joins");
  const auto z = [](const char* words) { return std::string(words) + '\0'; };
  c.out = whole("", number(3U << 16U) + z("user") + z("app") + z("database") + z("shop") + '\0');
  drivers_.push_back(std::move(c));
}

void world::ask(door_client& c, const std::string& sql, std::set<std::string> after, bool commits) {
  note("driver ", text(c.id), " says ", sql);
  // From here on it counts no more on what this message may take from it.
  if (commits)
    for (auto& [channel, p] : c.channels)
      if (!after.contains(channel)) p.end();
  c.asked = true;
  c.refused.clear();
  c.asked_for = std::move(after);
  c.out += whole("Q", sql + '\0');
}

void world::driver_asks(door_client& c) {
  if (!c.open || c.asked || c.ready == 0) return;
  const bool block = c.ready != 'I';
  if (c.ready == 'E') return ask(c, random_.chance(50) ? "COMMIT" : "ROLLBACK", c.held, false);
  auto after = c.view;
  switch (random_.below(10)) {
    case 0:
      return ask(c, block ? "COMMIT" : "BEGIN", after, block);
    case 1:
      return block ? ask(c, "ROLLBACK", c.held, false) : ask(c, "SELECT 1", after, false);
    case 2:
      return ask(c, random_.chance(50) ? "NOTIFY q_a" : "LISTEN q_a; SELECT * FROM t", after, false);
    case 3:
      return ask(c, "UNLISTEN *", {}, !block);
    case 4:
      after.insert(gap_channel);
      return ask(c, "LISTEN \"pgwake.gap\"", after, false);
    case 5: {
      if (after.empty()) break;
      const auto channel = *after.begin();
      after.erase(channel);
      return ask(c, "UNLISTEN " + quote_identifier(channel), after, !block);
    }
    default:
      break;
  }
  std::string sql;
  for (auto n = random_.pick({1UL, 1UL, 3UL}); n > 0; --n) {
    const auto& channel = random_.pick(pool_);
    sql += (sql.empty() ? "LISTEN " : "; LISTEN ") + quote_identifier(channel);
    after.insert(channel);
  }
  ask(c, sql, after, false);
}

void world::driver_operation(const operation& op) {
  using kind = operation::kind;
  if (op.what == kind::join_door) return join_door();
  std::vector<door_client*> open;
  for (auto& c : drivers_)
    if (c.open) open.push_back(&c);
  if (open.empty()) return;
  auto& c = *random_.pick(open);
  if (op.what == kind::driver_asks) return driver_asks(c);
  if (op.what != kind::driver_trouble) return;
  switch (random_.below(4)) {
    case 0:
      return driver_leaves(c);
    case 1:
      engine_.evict(c.id, now_);
      after_call();
      return act();
    default:
      note("driver ", text(c.id), c.stalled ? " reads again" : " stalls");
      c.stalled = !c.stalled;
  }
}

void world::driver_leaves(door_client& c) {
  note("driver ", text(c.id), " leaves");
  const auto id = c.id;
  const bool open = c.open;
  drivers_.remove_if([&c](const auto& other) { return &other == &c; });
  if (!open) return;
  engine_.left(id, now_);
  after_call();
  act();
}

// P13, P14: who is closed for a gap had something to lose, and can come back at once or elsewhere.
void world::driver_closed(door_client& c, const std::string& fields) {
  note("hub closes driver ", text(c.id), ": ", fields);
  const auto has = [&fields](const char* word) { return fields.find(word) != std::string::npos; };
  const auto who = "driver " + text(c.id);
  if (has("reason=57P01")) {
    tally_.saw(rare::driver_closed_at_gap);
    const bool long_outage = unhealthy_since_ && now_ - *unhealthy_since_ >= config_.front_door_grace;
    // In a long outage also one whose LISTEN waits, or that came to listen to gaps alone.
    if (!c.gap_possible && !(long_outage && (c.asked || !c.held.empty())))
      broken("P14: " + who + " is closed though it has missed nothing");
    if (!engine_.the_upstream().healthy() && !long_outage)
      broken("P13: " + who + " is closed in an outage that is young");
  } else if (has("reason=57P03")) {
    tally_.saw(rare::driver_turned_away);
    if (c.ready != 0) broken("P4: " + who + " was inside and is turned away");
    if (engine_.the_upstream().healthy()) broken("P4: " + who + " is turned away though all is well");
  } else if (has("reason=slow") || has("reason=fullest")) {
    tally_.saw(rare::driver_evicted);
  } else if (!has("operator") && !(has("reason=42") || has("reason=22"))) {
    broken(who + " was closed though it did nothing wrong: " + fields);
  }
  flush_driver(c);
  c.open = false;
  engine_.left(c.id, now_);
  after_call();
}

bool world::flush_driver(door_client& c) {
  auto* box = engine_.open_outbox(c.id);
  if (box == nullptr || box->empty() || c.pipe.size() >= c.capacity) return false;
  std::vector<std::string_view> pieces;
  box->gather(pieces, random_.between(1, 64), 4'096);
  const auto room = c.capacity - c.pipe.size();
  std::size_t n = 0;
  for (const auto p : pieces) {
    const auto part = p.substr(0, room - n);
    c.pipe += part;
    n += part.size();
    if (n == room) break;
  }
  if (n == 0) return false;
  engine_.written(c.id, n);
  if (engine_.stalled(c.id)) {
    engine_.resume(c.id, now_);
    after_call();
    act();
  }
  return true;
}

bool world::exchange(door_client& c) {
  bool did = false;
  // Whoever is in a transaction when all trouble is over ends it.
  if (healed_ && c.open && !c.asked && (c.ready == 'T' || c.ready == 'E')) {
    ask(c, "COMMIT", c.ready == 'T' ? c.view : c.held, c.ready == 'T');
    did = true;
  }
  if (c.open && !c.out.empty() && engine_.may_read(c.id)) {
    const auto n = random_.chance(50) ? c.out.size() : random_.between(1, c.out.size());
    const auto chunk = c.out.substr(0, n);
    c.out.erase(0, n);
    engine_.bytes(c.id, chunk, now_);
    after_call();
    act();
    did = true;
  }
  if (c.open) did = flush_driver(c) || did;
  if (c.pipe.empty() || (c.stalled && c.open)) return did;
  c.unread += std::exchange(c.pipe, {});
  while (c.unread.size() >= 5) {
    body_reader length(std::string_view(c.unread).substr(1));
    const auto size = static_cast<std::size_t>(length.int32());
    if (c.unread.size() < size + 1) break;
    const auto message = c.unread.substr(0, size + 1);
    c.unread.erase(0, size + 1);
    ++tally_.frames;
    driver_hears(c, message[0], message.substr(5));
  }
  return true;
}

void world::driver_hears(door_client& c, char type, const std::string& body) {
  const auto who = "driver " + text(c.id) + ": ";
  if (c.fatal) broken("P19: " + who + "something follows its last words");
  if (type == 'A') return driver_notified(c, body);
  if (type == 'S' || type == 'N') return;
  if (type == 'E' && body.find("FATAL") != std::string::npos) {
    c.fatal = true;
    return;
  }
  if (!c.asked) broken("P12: " + who + "an answer to nothing");
  c.answering = true;
  if (type == 'E') {
    c.refused = sqlstate_of(body);
    note("  driver ", text(c.id), " <- ", c.refused);
    const bool ours = c.refused == "0A000" || c.refused == "53400";
    const bool names = c.refused.starts_with("42") || c.refused.starts_with("22");
    if (!ours && !names) broken(who + "refused with " + c.refused);
  }
  if (type == 'Z') driver_ready(c, body[0]);
}

void world::driver_ready(door_client& c, char how) {
  note("  driver ", text(c.id), " <- ready ", std::string(1, how));
  c.asked = c.answering = false;
  const char before = std::exchange(c.ready, how);
  if (!c.refused.empty()) {
    if (how == 'T') broken("P10: driver " + text(c.id) + " had an error and its transaction goes on");
    c.asked_for = how == 'E' ? c.view : c.held;
  }
  c.view = c.asked_for;
  if (before == 'T' && how == 'I') tally_.saw(rare::driver_committed);
  if (how != 'I') return;
  c.held = c.view;
  for (const auto& channel : c.held) {
    if (channel == gap_channel) continue;
    auto& p = c.channels[channel];
    if (p.covered) continue;
    if (!listens(channel) && !c.gap_possible)
      broken("P8: driver " + text(c.id) + " was told that it listens to " + channel + ", and nobody does");
    p.covered = true;
    p.owes_gap = !listens(channel);
    p.lost_at = database_.commits();
  }
}

void world::driver_notified(door_client& c, const std::string& body) {
  body_reader r(body);
  const auto pid = r.int32();
  const std::string channel(r.text());
  const std::string payload(r.text());
  const auto who = "driver " + text(c.id) + ", " + channel + ": ";
  note("  driver ", text(c.id), " <- ", channel, " =", payload.substr(0, 12));
  if (c.answering || c.ready != 'I')
    broken("P12: " + who + "a notification inside a response or transaction");
  if (channel == gap_channel) return driver_told(c, payload);
  auto& p = c.channels[channel];
  if (payload.empty()) {
    p.dirty.clear();
    return;
  }
  const auto commit = std::stoul(payload.substr(1));
  if (commit >= database_.commits()) broken(who + "a payload that nobody sent");
  const auto& n = database_.at(commit);
  if (n.channel != channel || n.payload != payload || n.pid != pid)
    broken("P12: " + who + "not what was sent as commit " + text(commit));
  if (static_cast<std::ptrdiff_t>(commit) <= c.last_commit)
    broken("D1: " + who + "commit " + text(commit) + " comes twice or out of order");
  c.last_commit = static_cast<std::ptrdiff_t>(commit);
  if (p.covered && p.owes_gap && commit >= p.lost_at)
    broken("P13: " + who + "commit " + text(commit) + " of the new session comes before the gap");
  if (!p.due.empty() && p.due.front() < commit)
    broken("D3: " + who + "commit " + text(p.due.front()) + " is lost without a gap");
  if (!p.due.empty() && p.due.front() == commit) p.due.pop_front();
}

// What was lost was lost before its LISTEN was active again.
void world::driver_told(door_client& c, const std::string& payload) {
  tally_.saw(rare::driver_told_of_gap);
  if (payload != "reconnect" || ++c.told > c.losses)
    broken("P13: driver " + text(c.id) + " is told of a gap that was none");
  for (auto& [channel, p] : c.channels) {
    while (!p.due.empty() && p.due.front() < listened_since(channel)) p.due.pop_front();
    p.dirty.clear();
    if (listens(channel) && engine_.the_upstream().plan().active(channel)) p.owes_gap = false;
  }
}

void world::driver_session_lost() {
  for (auto& c : drivers_) {
    if (!c.held.empty() || c.asked || c.ready != 'I') c.gap_possible = true;
    ++c.losses;
    for (auto& [channel, p] : c.channels) {
      if (!p.covered) continue;
      p.owes_gap = true;
      p.lost_at = database_.commits();
    }
  }
}

// Nothing is on its way to this driver.
bool world::is_settled(const door_client& c) const {
  if (!c.open || c.stalled || c.asked || c.ready != 'I' || !c.out.empty() || !c.pipe.empty()) return false;
  auto* box = engine_.open_outbox(c.id);
  return box != nullptr && box->empty() && engine_.the_upstream().healthy() && link_.arriving.empty() &&
         !link_.awaiting && !link_.black_hole && link_.server && !link_.busy;
}

void world::check_settled(door_client& c) {
  if (!is_settled(c)) return;
  bool owed = false;
  for (const auto& [channel, p] : c.channels) {
    if (!p.covered) continue;
    const auto who = "driver " + text(c.id) + ", " + channel + ": ";
    if (p.owes_gap) {
      owed = true;
      // Its turn to be closed may come within a second.
      if (overdue_) broken("P13: " + who + "the outage was never told");
      continue;
    }
    if (!p.due.empty()) broken("D3: " + who + "commit " + text(p.due.front()) + " is lost, and no gap told");
    if (!p.dirty.empty()) broken("D2: " + who + "commit " + text(p.dirty.front()) + " is lost");
  }
  if (!owed && c.held.contains(gap_channel)) c.gap_possible = false;
}

}  // namespace pgwake::simulation
