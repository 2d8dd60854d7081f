#include <algorithm>
#include <map>

#include "simulation/world.hpp"

namespace pgwake::simulation {

using namespace std::chrono_literals;
using sent = model_worker::sent;

namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\0')
      out += "\\u0000";
    else
      out += c;
  }
  return out + "\"";
}

}  // namespace

model_worker* world::find(pgwaked::worker_id id) {
  for (auto& w : workers_)
    if (w.id == id && w.open) return &w;
  return nullptr;
}

model_worker* world::some_worker() {
  std::vector<model_worker*> open;
  for (auto& w : workers_)
    if (w.open && !w.doomed && !w.holds_frame) open.push_back(&w);
  return open.empty() ? nullptr : random_.pick(open);
}

// A channel that this worker can name.
std::string world::some_channel(const model_worker& w) {
  for (int i = 0; i < 10; ++i) {
    const auto& name = random_.pick(pool_);
    if (w.v1 || name.starts_with("q_")) return name;
  }
  return pool_.front();
}

void world::publish(std::size_t notifications, bool durable, std::size_t filler) {
  if (!server_up_ || database_.recovery) return;
  std::vector<std::pair<std::string, std::string>> all;
  std::size_t next = database_.commits();
  for (std::size_t i = 0; i < notifications; ++i) {
    if (!all.empty() && random_.chance(20)) {
      all.push_back(random_.pick(all));  // collapses
      continue;
    }
    const auto& channel = random_.pick(pool_);
    std::string payload;
    if (!(notifications > 1 ? random_.chance(40) : durable)) {
      payload = "e" + std::to_string(next) + ":" + std::string(random_.below(filler + 1), '.');
      if (database_.in() == database::encoding::ascii && random_.chance(20)) {
        payload += "\xE9";
        tally_.saw(rare::bad_bytes);
      }
    }
    if (std::find(all.begin(), all.end(), std::make_pair(channel, payload)) == all.end()) ++next;
    all.emplace_back(channel, payload);
  }
  database_.commit(all, static_cast<int>(random_.between(1, 3)));
  push_notifications();
}

void world::committed(const database::notification& n) {
  note("commit ", text(n.commit), " ", n.channel, n.payload.empty() ? "" : " =" + n.payload.substr(0, 12));
  for (auto& c : drivers_)
    if (const auto at = c.channels.find(n.channel); at != c.channels.end() && at->second.covered)
      (n.payload.empty() ? at->second.dirty : at->second.due).push_back(n.commit);
  for (auto& w : workers_) {
    const auto at = w.channels.find(n.channel);
    if (at == w.channels.end() || !at->second.covered || !at->second.wants) continue;
    if (!n.payload.empty())
      at->second.due.push_back(n.commit);
    else
      at->second.dirty.push_back(n.commit);
  }
}

void world::send_fence() {
  if (!server_up_ || database_.recovery) return;
  auto* w = some_worker();
  if (w == nullptr || !w->v1) return;
  const auto id = next_fence_++;
  w->fences[id] = database_.commits();
  database_.commit({{"pgwake.fence", w->token + ":" + std::to_string(id)}}, 9);
  push_notifications();
}

void world::join(bool v1) {
  if (workers_.size() >= 6) return;
  model_worker w;
  w.uid = random_.chance(70) ? 33 : 34;
  w.v1 = v1;
  w.capacity = random_.pick({40UL, 300UL, 4'000UL});
  w.token = "T" + std::to_string(workers_.size()) + std::to_string(random_.word());
  w.id = engine_.joined({1, w.uid, 33}, w.token, now_);
  note("worker ", text(w.id), v1 ? " joins, v1" : " joins, v0");
  workers_.push_back(std::move(w));
  auto& joined = workers_.back();
  if (!v1) return;
  const bool elsewhere = random_.chance(4);
  const char* db = elsewhere ? R"(,"db":"other")" : random_.chance(50) ? R"(,"db":"shop")" : "";
  put(joined, std::string(R"({"t":"hello","v":1,"name":"w")") + db + "}", sent::hello);
  if (elsewhere) {
    tally_.saw(rare::wrong_database);
    joined.doomed = true;
  }
}

// Many frames in one write, from one that cares for nobody.
void world::flood(model_worker& w, std::uint64_t frames) {
  note("worker ", text(w.id), " floods");
  tally_.saw(rare::flooded);
  const auto channel = some_channel(w);
  for (; frames > 0; --frames) {
    switch (random_.below(4)) {
      case 0:
        send_sub(w, channel);
        break;
      case 1:
        send_unsub(w, channel);
        break;
      case 2:
        put(w, R"({"t":"stats"})", sent::other);
        break;
      default:
        if (w.v1) w.pings.push_back(w.next_seq);
        put(w, R"({"t":"ping","id":)" + std::to_string(w.next_seq) + "}", sent::ping);
    }
  }
}

// Many connections of one user, each with a little to say.
void world::crowd() {
  std::size_t there = 0;
  for (const auto& w : workers_) there += w.uid == 35 ? 1 : 0;
  for (; there < 12; ++there) {
    model_worker w;
    w.v1 = true;
    w.uid = 35;
    w.capacity = 300;
    w.token = "C" + std::to_string(random_.word());
    w.id = engine_.joined({1, w.uid, 33}, w.token, now_);
    note("worker ", text(w.id), " joins a crowd");
    workers_.push_back(std::move(w));
    put(workers_.back(), R"({"t":"hello","v":1})", sent::hello);
  }
  for (auto& w : workers_)
    if (w.uid == 35 && w.open && !w.doomed && !w.holds_frame) flood(w, random_.between(1, 20));
}

void world::put(model_worker& w, const std::string& json, sent what, const std::string& channel) {
  std::string frame;
  append_frame(frame, json);
  w.out += frame;
  w.out_total += frame.size();
  w.in_flight.push_back({w.out_total, what, channel, w.next_seq++});
}

void world::send_sub(model_worker& w, const std::string& channel) {
  note("worker ", text(w.id), " subs ", channel);
  auto& s = w.channels[channel];
  s.wants = true;
  s.last_sub = w.next_seq;
  s.unanswered.push_back(w.next_seq);
  put(w, R"({"t":"sub","q":)" + quoted(w.v1 ? channel : channel.substr(2)) + "}", sent::sub, channel);
}

void world::send_unsub(model_worker& w, const std::string& channel) {
  note("worker ", text(w.id), " unsubs ", channel);
  auto& s = w.channels[channel];
  if (!s.unanswered.empty()) tally_.saw(rare::unsub_before_ack);
  s.wants = false;
  s.end_promise();
  s.unsub_seq = w.next_seq;
  put(w, R"({"t":"unsub","q":)" + quoted(w.v1 ? channel : channel.substr(2)) + "}", sent::unsub, channel);
}

void world::bad_name(model_worker& w) {
  const auto [q, echo] =
      random_.pick({std::make_pair(R"("")", ""), std::make_pair("7", "7"), std::make_pair("[1]", "[1]")});
  note("worker ", text(w.id), " subs the bad name ", q);
  w.channels[echo].unanswered.push_back(w.next_seq);
  w.channels[echo].last_sub = w.next_seq;
  put(w, std::string(R"({"t":"sub","q":)") + q + "}", sent::sub, echo);
}

void world::die(model_worker& w) {
  note("worker ", text(w.id), " dies");
  const auto id = w.id;
  const bool open = w.open;
  if (auto* box = open ? engine_.open_outbox(id) : nullptr; box != nullptr && !box->empty())
    tally_.saw(rare::worker_died_with_backlog);
  workers_.remove_if([&w](const auto& other) { return &other == &w; });
  if (!open) return;
  engine_.left(id, now_);
  after_call();
  act();
}

namespace {

// Of a channel, to a worker that takes no `nack`.
bool names_refusal(const std::string& fields) {
  for (const char* why : {"invalid_channel", "forbidden", "limit", "listen_failed"})
    if (fields.find(std::string("reason=") + why) != std::string::npos) return true;
  return false;
}

}  // namespace

// The hub closed it: what the kernel holds can still be read.
void world::closed_by_hub(model_worker& w, bool flushed, const std::string& fields) {
  note("hub closes worker ", text(w.id), ": ", fields);
  const bool slow = fields.find("reason=slow") != std::string::npos;
  const bool fullest = fields.find("reason=fullest") != std::string::npos;
  if (slow) {
    tally_.saw(rare::evicted_slow);
    const auto number = [&fields](const char* name) {
      return std::stoul(fields.substr(fields.find(name) + std::string(name).size()));
    };
    const auto& l = config_.limits;
    if (number("outbox_bytes=") <= l.outbox_max_bytes && number("outbox_frames=") <= l.outbox_max_frames)
      broken("D3: worker " + text(w.id) + " was evicted below its caps: " + fields);
    const bool hard = number("outbox_bytes=") > l.hard_factor * l.outbox_max_bytes ||
                      number("outbox_frames=") > l.hard_factor * l.outbox_max_frames;
    if (!hard) tally_.saw(rare::evicted_in_time);
    if (!hard && w.over_since && now_ - *w.over_since < l.slow_at_most && w.took_at > *w.over_since &&
        now_ - w.took_at < l.slow_look)
      broken("D3: worker " + text(w.id) + " was evicted though it takes bytes: " + fields);
  } else if (fullest) {
    tally_.saw(rare::evicted_fullest);
    const auto bytes = std::stoul(fields.substr(fields.find("outbox_bytes=") + 13));
    for (auto& other : workers_) {
      // Of its user's. Answers and gaps of the same call may not have been there yet when it was judged.
      auto* box =
          other.open && other.id != w.id && other.uid == w.uid ? engine_.open_outbox(other.id) : nullptr;
      if (box != nullptr && box->ephemeral_memory() > bytes + 800)
        broken("D8: worker " + text(w.id) + " was evicted for the sum, but worker " + text(other.id) +
               " of the same user is fuller");
    }
  } else if (w.refused || (!w.v1 && engine_.open_outbox(w.id) == nullptr && names_refusal(fields))) {
    // In the second case what was queued last, its nack, went with an outbox that was one too many for D8.
    tally_.saw(rare::v0_turned_away);
  } else if (!w.v1 && fields.find("cannot log in") != std::string::npos) {
    tally_.saw(rare::v0_unserved);
    if (!refuse_login_ && !pooler_ && engine_.the_upstream().healthy())
      broken("S3: v0 worker " + text(w.id) + " is closed though logins work");
  } else if (!w.doomed && !w.holds_frame && fields.find("operator") == std::string::npos &&
             fields.find("shutdown") == std::string::npos) {
    broken("worker " + text(w.id) + " was closed though it did nothing wrong: " + fields);
  }
  if (fields.find("not finished in time") != std::string::npos) tally_.saw(rare::frame_timed_out);
  if (flushed) flush(w);
  w.open = false;
  engine_.left(w.id, now_);
  after_call();
}

bool world::exchange(model_worker& w) {
  bool did = deliver(w);
  if (w.open) did = flush(w) || did;
  return read(w) || did;
}

// Bytes from the worker to the hub, cut anywhere.
bool world::deliver(model_worker& w) {
  if (!w.open || w.out.empty()) return false;
  if (!engine_.may_read(w.id)) {
    tally_.saw(rare::reading_paused);
    return false;
  }
  if (w.holds_frame && w.out.size() < 3) return false;
  auto n = random_.chance(50) ? w.out.size() : random_.between(1, w.out.size());
  if (w.holds_frame) n = std::min(n, w.out.size() - 2);
  if (n == 0) return false;
  const auto chunk = w.out.substr(0, n);
  w.out.erase(0, n);
  w.out_sent += n;
  while (!w.in_flight.empty() && w.in_flight.front().end <= w.out_sent) {
    w.waiting.push_back(w.in_flight.front());
    w.in_flight.pop_front();
  }
  const auto id = w.id;
  engine_.bytes(id, chunk, now_);
  after_call();
  act();
  return true;
}

// One of the hub's turns: each user with frames that wait has some of them taken.
void world::take_turn() {
  std::map<std::uint32_t, std::uint64_t> before;
  const auto frames_of = [this](std::uint32_t uid) {
    std::uint64_t sum = 0;
    for (const auto& [id, m] : engine_.members())
      if (m.who.uid == uid) sum += m.taken;
    return sum;
  };
  for (const auto& [id, m] : engine_.members())
    if (m.waits) before[m.who.uid] = frames_of(m.who.uid);
  const auto members = engine_.members().size();
  engine_.turn(now_);
  engine_.readable().clear();
  if (before.size() > 1) tally_.saw(rare::turns_taken);
  if (members == engine_.members().size())
    for (const auto& [uid, sum] : before) {
      const bool waits =
          std::any_of(engine_.members().begin(), engine_.members().end(),
                      [u = uid](const auto& m) { return m.second.who.uid == u && m.second.waits; });
      if (waits && frames_of(uid) == sum) broken("a user's workers wait, and another's frames were taken");
    }
  after_call();
  act();
}

// What the hub's socket takes, which may end anywhere.
bool world::flush(model_worker& w) {
  auto* box = engine_.open_outbox(w.id);
  if (box == nullptr || box->empty() || w.pipe.size() >= w.capacity) return false;
  std::vector<std::string_view> pieces;
  box->gather(pieces, random_.between(1, 64), 4'096);
  auto room = w.capacity - w.pipe.size();
  if (random_.chance(10)) room = random_.between(1, room);
  std::size_t n = 0;
  for (const auto p : pieces) {
    const auto part = p.substr(0, room - n);
    w.pipe += part;
    n += part.size();
    if (part.size() < p.size()) tally_.saw(rare::write_cut_in_a_frame);
    if (n == room) break;
  }
  engine_.written(w.id, n);
  if (n > 0) w.took_at = now_;
  note_over(w);
  frame_reader cut(max_frame_from_hub);
  w.cut_frame += w.pipe.substr(w.pipe.size() - n);
  cut.append(w.cut_frame);
  std::string_view body;
  std::size_t whole = 0;
  for (; cut.next(body) == frame_reader::outcome::frame; ++w.written) whole += frame_header + body.size();
  w.cut_frame.erase(0, whole);
  return n > 0;
}

bool world::read(model_worker& w) {
  if (w.pipe.empty() || (w.stalled && w.open)) return false;
  w.reader.append(std::exchange(w.pipe, {}));
  std::string_view body;
  auto outcome = w.reader.next(body);
  for (; outcome == frame_reader::outcome::frame; outcome = w.reader.next(body)) {
    from_hub message;
    std::string why;
    if (!decode(body, message, why))
      broken("the hub sent a malformed frame: " + why + ": " + std::string(body));
    ++tally_.frames;
    frame_received(w, message);
  }
  if (outcome != frame_reader::outcome::need_more) broken("the hub sent a frame of a bad length");
  return true;
}

void world::worker_operation(const operation& op) {
  using kind = operation::kind;
  switch (op.what) {
    case kind::publish_durable:
      return publish(1, true, 0);
    case kind::publish_ephemeral:
      return publish(1, false, random_.pick({0UL, 60UL, 900UL}));
    case kind::publish_transaction:
      return publish(random_.between(2, 8), false, 20);
    case kind::publish_flood:
      for (int i = 0; i < 12; ++i) publish(1, false, 120);
      return;
    case kind::publish_fence:
      return send_fence();
    case kind::join_v1:
      return join(true);
    case kind::join_v0:
      return join(false);
    default:
      break;
  }
  auto* w = some_worker();
  if (w == nullptr) return;
  switch (op.what) {
    case kind::die:
      return die(*w);
    case kind::sub:
      return send_sub(*w, some_channel(*w));
    case kind::unsub:
      return send_unsub(*w, some_channel(*w));
    case kind::sub_burst: {
      tally_.saw(rare::two_acks_one_write);
      const auto channel = some_channel(*w);
      for (auto n = random_.between(2, 6); n > 0; --n)
        if (random_.chance(60))
          send_sub(*w, random_.chance(80) ? channel : some_channel(*w));
        else
          send_unsub(*w, channel);
      return;
    }
    case kind::bad_name:
      return bad_name(*w);
    case kind::ping:
      for (auto n = random_.pick({1UL, 1UL, 20UL}); n > 0; --n) {
        if (w->v1) w->pings.push_back(w->next_seq);
        put(*w, R"({"t":"ping","id":)" + std::to_string(w->next_seq) + "}", sent::ping);
      }
      return;
    case kind::unknown_frame:
      return put(*w, random_.chance(50) ? R"({"t":"stats"})" : R"({"t":"from the future","q":"q_a"})",
                 sent::other);
    case kind::malformed_frame:
      tally_.saw(rare::malformed_frame);
      note("worker ", text(w->id), " sends garbage");
      w->doomed = true;
      return put(*w, random_.pick({"[]", "{", "{\"t\":7}", "\xFF", R"({"t":"sub","q":"\ud800"})"}),
                 sent::fault);
    case kind::half_a_frame:
      note("worker ", text(w->id), " sends half a frame");
      put(*w, R"({"t":"sub","q":"q_a"})", sent::fault);
      w->holds_frame = true;
      return;
    case kind::flood:
      return flood(*w, random_.between(20, 400));
    case kind::crowd:
      return crowd();
    case kind::stall:
      note("worker ", text(w->id), " stalls");
      w->stalled = true;
      return;
    case kind::wake_up:
      note("worker ", text(w->id), " reads again");
      w->stalled = false;
      return;
    case kind::evict:
      note("operator evicts worker ", text(w->id));
      engine_.evict(w->id, now_);
      after_call();
      return act();
    default:
      return;
  }
}

}  // namespace pgwake::simulation
