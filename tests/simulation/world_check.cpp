#include <algorithm>
#include <map>
#include <set>

#include "common/channel.hpp"
#include "common/unicode.hpp"
#include "simulation/world.hpp"
#include "unit/core/describe.hpp"

namespace pgwake::simulation {

using namespace std::chrono_literals;
using sent = model_worker::sent;

std::string world::channel_of(const model_worker& w, const std::string& name) const {
  return w.v1 ? name : "q_" + name;
}

std::size_t world::listened_since(const std::string& channel) const {
  const auto at = since_.find(channel);
  return at == since_.end() ? 0 : at->second;
}

// After every call into the engine: what it has queued is looked at while the world still is as it was then.
void world::after_call() {
  frames_taken();
  if (engine_.the_upstream().healthy())
    unhealthy_since_.reset();
  else if (!unhealthy_since_)
    unhealthy_since_ = now_;
  auto touched = std::exchange(engine_.touched(), {});
  for (const auto id : touched)
    if (auto* w = find(id)) {
      look_at(*w);
      if (engine_.the_hub().counted().gaps != gaps_) check_gap_places(*w);
    }
  gaps_ = engine_.the_hub().counted().gaps;
  overtaking_.clear();
}

// Frames that the hub has taken by now.
void world::frames_taken() {
  for (auto& w : workers_) {
    const auto m = engine_.members().find(w.id);
    if (!w.open || m == engine_.members().end()) continue;
    for (; w.taken < m->second.taken; ++w.taken) {
      if (w.waiting.empty()) broken("the hub takes a frame that was not sent");
      const auto frame = w.waiting.front();
      w.waiting.pop_front();
      frame_processed(w, frame);
    }
    note_over(w);
  }
}

void world::note_over(model_worker& w) {
  const auto* box = w.open ? engine_.open_outbox(w.id) : nullptr;
  const bool over = box != nullptr && (box->ephemeral_memory() > config_.limits.outbox_max_bytes ||
                                       box->ephemeral_frames() > config_.limits.outbox_max_frames);
  if (!over) w.over_since.reset();
  if (over && !w.over_since) w.over_since = now_;
}

// Its waiting frames, from the first that is not written whole.
std::vector<std::string> world::waiting(model_worker& w) {
  std::vector<std::string> frames;
  auto* box = engine_.open_outbox(w.id);
  if (box == nullptr) return frames;
  frame_reader reader(max_frame_from_hub);
  reader.append(w.cut_frame);
  reader.append(test::waiting_bytes(*box));
  std::string_view body;
  while (reader.next(body) == frame_reader::outcome::frame) frames.emplace_back(body);
  if (reader.mid_frame()) broken("worker " + text(w.id) + "'s outbox ends in the middle of a frame");
  return frames;
}

void world::look_at(model_worker& w) {
  const auto frames = waiting(w);
  const auto fresh = w.written + frames.size() - w.queued;
  w.queued += fresh;
  for (auto i = frames.size() - std::min<std::size_t>(fresh, frames.size()); i < frames.size(); ++i) {
    from_hub message;
    std::string why;
    if (!decode(frames[i], message, why)) broken("the hub queued a malformed frame: " + why);
    frame_queued(w, message);
  }
}

// A gap that was just queued stands behind all that came before the outage.
void world::check_gap_places(model_worker& w) {
  std::map<std::string, std::size_t> before;  // channel -> the oldest commit of the new session
  for (const auto& [channel, s] : w.channels)
    if (w.v1 && s.covered && s.owes_gap && listens(channel) && engine_.the_upstream().plan().active(channel))
      before[channel] = s.lost_at;
  if (before.empty()) return;
  std::map<std::string, std::size_t> oldest_behind;
  const auto frames = waiting(w);
  for (auto it = frames.rbegin(); it != frames.rend(); ++it) {
    from_hub message;
    std::string why;
    const auto* x = decode(*it, message, why) ? std::get_if<wake>(&message) : nullptr;
    if (x == nullptr || !before.contains(x->q)) continue;
    if (x->payload) {
      oldest_behind[x->q] = std::stoul(x->payload->substr(1));
    } else if (x->gap != gap_cause::none) {
      const auto behind = oldest_behind.find(x->q);
      if (behind != oldest_behind.end() && behind->second < before[x->q])
        broken("G: the gap of " + x->q + " takes a place before commit " + text(behind->second) +
               ", which is older");
      before.erase(x->q);
    }
  }
}

void world::frame_queued(model_worker& w, const from_hub& message) {
  if (const auto* a = std::get_if<ack>(&message)) return ack_queued(w, *a);
  if (const auto* n = std::get_if<nack>(&message)) return nack_queued(w, *n);
  if (const auto* g = std::get_if<wake>(&message)) {
    // (but for one that goes before a wake which overtook the answer of its LISTEN)
    if (g->gap != gap_cause::none && !listens(g->q) && !overtaking_.contains(g->q))
      broken("G: a gap of " + g->q + " is announced to worker " + text(w.id) + " while LISTEN is not active");
  }
}

void world::ack_queued(model_worker& w, const ack& a) {
  const auto channel = channel_of(w, a.q);
  auto& s = w.channels[channel];
  if (s.pending.empty())
    broken("S8: worker " + text(w.id) + " gets an ack of " + channel + " that it did not ask for");
  const auto asked = s.pending.front();
  s.pending.pop_front();
  s.answers.push_back(asked.seq);
  const bool last = s.held && s.wants && asked.seq > s.unsub_seq;
  const bool told = std::exchange(s.told, s.told || (s.held && asked.seq == s.last_processed));
  // What the server has committed counts only once the hub has read so.
  const bool unread = link_.awaiting && link_.sql.starts_with("LISTEN") &&
                      link_.sql.find(quote_identifier(channel)) != std::string::npos;
  const bool early = unread || (!w.v1 && !engine_.the_upstream().plan().active(channel));
  if (listens(channel) && (!early || engine_.the_upstream().plan().active(channel))) {
    if (last) s.covered = s.real = true;
    return;
  }
  if (w.v1)
    broken("S1: worker " + text(w.id) + " is acked " + channel +
           " without a committed LISTEN in the live session");
  // (one that was acked what it still holds is told at once)
  if (!told && now_ - asked.processed < 1'500ms && asked.seq == s.last_processed && s.pending.empty() &&
      s.unanswered.size() == 1)
    broken("S3: v0 worker " + text(w.id) + " is acked " + channel + " before its 1.5 s");
  tally_.saw(rare::early_v0_ack);
  if (last) s.covered = s.owes_gap = true;
}

void world::nack_queued(model_worker& w, const nack& n) {
  const auto name = n.q.is_string() ? n.q.text : n.q.not_a_string;
  const bool fault = n.q.is_string() ? name.empty() : true;
  const auto channel = fault ? name : channel_of(w, name);
  auto& s = w.channels[channel];
  s.told = false;
  w.refused = w.refused || !w.v1;
  const bool cut = database_.cut(channel) != channel;
  const bool refusable = ever_bad_.contains(channel) || ever_bad_.contains(database_.cut(channel)) ||
                         database_.in() == database::encoding::latin1;
  if (n.why == code::limit) {
    tally_.saw(rare::limit_nack);
    std::set<std::string> of_user;
    for (const auto& other : workers_)
      for (const auto& [held, x] : other.channels)
        if (other.uid == w.uid && (x.held || !x.pending.empty())) of_user.insert(held);
    if (engine_.the_hub().channel_count() + 8 < config_.limits.max_channels &&
        of_user.size() + 8 < config_.limits.channels_of_user.ordinary)
      broken("K4: a sub is refused with `limit` though there is room");
  } else if (n.why == code::listen_failed) {
    tally_.saw(rare::channel_refused);
    if (!refusable || (!n.sqlstate.starts_with("42") && !n.sqlstate.starts_with("22")))
      broken("S5: " + channel + " is nacked for " + n.sqlstate + ", which is no fault of its own");
  } else if (!fault && cut) {
    if (n.sqlstate != "42622") tally_.saw(rare::name_that_is_another);
  } else if (!fault) {
    broken("S4: " + channel + " is a good name and nacked with " + std::string(to_string(n.why)));
  }
  if (s.pending.empty()) {
    // One that was acked in an earlier session and cannot be LISTENed any more must hear of it.
    if (!s.held || (n.why != code::listen_failed && !cut))
      broken("S8: a nack of " + channel + " that nobody asked for");
    tally_.saw(rare::refused_after_ack);
    s.held = false;
    s.end_promise();
    s.answers.push_back(0);
    return;
  }
  const auto asked = s.pending.front();
  s.pending.pop_front();
  s.answers.push_back(asked.seq);
  if (asked.seq != s.last_processed) return;
  s.held = false;
  s.end_promise();
}

void world::frame_processed(model_worker& w, const model_worker::sent_frame& f) {
  if (w.doomed && f.what == sent::fault) return;
  auto& s = w.channels[f.channel];
  if (f.what == sent::sub) {
    s.pending.push_back({f.seq, now_});
    s.last_processed = f.seq;
    if (!s.held) s.fresh_from = w.queued;
    s.held = true;
    if (link_.awaiting && link_.sql.starts_with("UNLISTEN") &&
        link_.sql.find(quote_identifier(f.channel)) != std::string::npos)
      tally_.saw(rare::wanted_while_unlistening);
  } else if (f.what == sent::unsub) {
    s.last_processed = f.seq;
    s.held = s.told = false;
  }
}

void world::frame_received(model_worker& w, const from_hub& message) {
  note("  worker ", text(w.id), " <- ", test::describe(message));
  ++w.received;
  if (w.said_bye) broken("worker " + text(w.id) + " gets a frame after bye: " + test::describe(message));
  if (w.v1 && w.received == 1 && !std::holds_alternative<welcome>(message))
    broken("the first frame is no welcome");
  if (w.received == (w.v1 ? 2U : 1U) && !std::holds_alternative<status>(message))
    broken("there is no status first");
  if (const auto* a = std::get_if<ack>(&message))
    return answer_received(w, channel_of(w, a->q), true, code::protocol);
  if (const auto* n = std::get_if<nack>(&message)) {
    const auto name = n->q.is_string() ? n->q.text : n->q.not_a_string;
    return answer_received(w, !n->q.is_string() || name.empty() ? name : channel_of(w, name), false, n->why);
  }
  if (const auto* x = std::get_if<wake>(&message)) return wake_received(w, *x);
  if (const auto* f = std::get_if<fence>(&message)) return fence_received(w, f->id);
  if (const auto* p = std::get_if<pong>(&message)) {
    if (w.pings.empty() || w.pings.front() != p->id) broken("pongs come out of order");
    w.pings.pop_front();
  }
  if (std::holds_alternative<bye>(message)) w.said_bye = true;
  if (std::holds_alternative<unknown_message>(message)) broken("the hub sends frames of no known kind");
}

void world::answer_received(model_worker& w, const std::string& name, bool good, code) {
  auto& s = w.channels[name];
  if (s.answers.empty()) broken("S8: an answer too many for " + name);
  const auto seq = s.answers.front();
  s.answers.pop_front();
  if (seq == 0) {
    if (s.unanswered.empty()) s.wants = false;
    return;
  }
  if (s.unanswered.empty() || s.unanswered.front() != seq)
    broken("S8: the answers for " + name + " are out of order");
  s.unanswered.pop_front();
  if (good)
    w.acked_seq = std::max(w.acked_seq, seq);
  else if (seq == s.last_sub && seq > s.unsub_seq)
    s.wants = false;
}

void world::wake_received(model_worker& w, const wake& message) {
  const auto channel = channel_of(w, message.q);
  const auto at = w.channels.find(channel);
  if (at == w.channels.end() || at->second.last_sub == 0)
    broken("worker " + text(w.id) + " gets a wake of " + channel + ", to which it never subscribed");
  auto& s = at->second;
  if (!s.wants && s.unsub_seq > s.last_sub && w.acked_seq > s.unsub_seq)
    broken("S8: worker " + text(w.id) + " gets a wake of " + channel +
           " after the ack of a sub later than its unsub");
  if (!s.covered && !s.unanswered.empty()) tally_.saw(rare::over_delivery);
  if (!w.v1 && (message.gap != gap_cause::none || message.by != 0)) broken("v0 gets members of v1");
  if (message.payload)
    ephemeral_received(w, s, channel, message);
  else
    durable_received(w, s, channel, message);
}

void world::ephemeral_received(model_worker& w, channel_state& s, const std::string& channel,
                               const wake& message) {
  const auto commit = std::stoul(message.payload->substr(1));
  const auto who = "worker " + text(w.id) + ", " + channel + ": ";
  if (commit >= database_.commits()) broken(who + "a payload that nobody sent");
  const auto& n = database_.at(commit);
  if (n.channel != channel) broken(who + "a wake of another channel");
  if (*message.payload != (w.v1 ? n.payload : replace_bad_utf8(n.payload)))
    broken("D6: " + who + "the payload has changed");
  if (w.v1 && message.by != n.pid) broken(who + "`by` names another backend");
  if (static_cast<std::ptrdiff_t>(commit) <= w.last_commit)
    broken("D1: " + who + "commit " + text(commit) + " comes after commit " +
           text(static_cast<std::uint64_t>(w.last_commit)));
  w.last_commit = static_cast<std::ptrdiff_t>(commit);
  if (!s.due.empty() && s.due.front() < commit)
    broken("D3: " + who + "commit " + text(s.due.front()) + " is lost without a gap before commit " +
           text(commit));
  if (!s.due.empty() && s.due.front() == commit) s.due.pop_front();
  if (s.owes_gap && !s.gap_came && s.covered && w.v1 && commit >= s.lost_at)
    broken("G: " + who + "commit " + text(commit) + " of the new session comes before the gap");
}

// It reads again now, so it has everything that was committed before.
void world::durable_received(model_worker& w, channel_state& s, const std::string& channel,
                             const wake& message) {
  const bool gap = message.gap != gap_cause::none || !w.v1;
  // But what comes before a fence says nothing of what was committed behind it.
  auto horizon = database_.commits();
  for (const auto& [id, commit] : w.fences)
    if (!gap && commit >= listened_since("pgwake.fence")) horizon = std::min(horizon, commit);
  while (!s.dirty.empty() && s.dirty.front() < horizon) s.dirty.pop_front();
  if (!gap) return;
  if (message.gap != gap_cause::none) tally_.saw(rare::gap_received);
  // What was lost was lost before LISTEN was active again.
  while (!s.due.empty() && s.due.front() < listened_since(channel)) s.due.pop_front();
  // It may be one of an earlier outage that had to wait.
  s.gap_came = true;
  if (listens(channel) && engine_.the_upstream().plan().active(channel)) s.owes_gap = false;
}

// A fence whose worker's stream has a hole, or that has too many of them unread, must not come.
void world::excuse_fence(const database::notification& n) {
  const auto& plan = engine_.the_upstream().plan();
  for (auto& w : workers_) {
    if (!w.open || w.token.empty() || !n.payload.starts_with(w.token + ":")) continue;
    auto* box = engine_.open_outbox(w.id);
    const bool hole = std::any_of(w.channels.begin(), w.channels.end(),
                                  [&](const auto& c) { return c.second.held && !plan.active(c.first); });
    if (hole || box == nullptr || box->fences() >= config_.limits.max_unsent_fences) {
      tally_.saw(rare::fence_dropped);
      w.fences.erase(std::stoull(n.payload.substr(w.token.size() + 1)));
    }
  }
}

// A fence is one cut in the stream: what was committed before it is here.
void world::fence_received(model_worker& w, std::uint64_t id) {
  const auto at = w.fences.find(id);
  if (at == w.fences.end()) broken("C6: a fence that is not this worker's, or twice");
  const auto commit = at->second;
  w.fences.erase(at);
  tally_.saw(rare::fence_passed);
  if (static_cast<std::ptrdiff_t>(commit) <= w.last_commit)
    broken("C6: a fence after what was committed later");
  w.last_commit = static_cast<std::ptrdiff_t>(commit);
  if (commit < listened_since("pgwake.fence")) return;
  for (const auto& [channel, s] : w.channels) {
    const auto since = listened_since(channel);
    if (!s.covered || s.owes_gap) continue;
    if (!s.dirty.empty() && s.dirty.front() < commit && s.dirty.front() >= since)
      broken("C6: a durable wake of " + channel + " committed before the fence is not there yet");
    if (!s.due.empty() && s.due.front() < commit && s.due.front() >= since)
      broken("C6: an ephemeral wake of " + channel + " committed before the fence is not there yet");
  }
}

void world::check_bounds() {
  const auto& hub = engine_.the_hub();
  std::size_t sum = 0;
  for (auto& w : workers_) {
    if (!w.open) continue;
    const auto* box = engine_.open_outbox(w.id);
    if (box == nullptr) broken("worker " + text(w.id) + " has no outbox");
    if (w.refused) broken("S3: v0 worker " + text(w.id) + " was nacked and is still served");
    const auto& l = config_.limits;
    sum += box->memory();
    if (box->ephemeral_memory() > l.hard_factor * (l.outbox_max_bytes + 1) ||
        box->ephemeral_frames() > l.hard_factor * (l.outbox_max_frames + 1))
      broken("D3: worker " + text(w.id) + " is far over its cap and still there");
    if (w.over_since && (now_ - *w.over_since > l.slow_at_most + 50ms ||
                         now_ - std::max(*w.over_since, w.took_at) > 2 * l.slow_look + 50ms))
      broken("D3: worker " + text(w.id) + " is over its cap for too long");
    if (box->control_memory() > l.control_max_bytes + 6'000)
      broken("D7: worker " + text(w.id) + " has unsent answers of " + text(box->control_memory()) + " bytes");
  }
  for (const auto& driver : drivers_) {
    if (!driver.open) continue;
    const auto* box = engine_.open_outbox(driver.id);
    if (box == nullptr) broken("driver " + text(driver.id) + " has no outbox");
    sum += hub.view(driver.id, 0)->bytes;  // and what its session keeps
    const auto& l = config_.limits;
    if (box->ephemeral_memory() > l.hard_factor * (l.outbox_max_bytes + 1) ||
        box->ephemeral_frames() > l.hard_factor * (l.outbox_max_frames + 1))
      broken("D3: driver " + text(driver.id) + " is far over its cap and still there");
  }
  if (sum != hub.held_bytes())
    broken("D8: the sum of the outboxes is " + text(sum) + ", the hub says " + text(hub.held_bytes()));
  if (sum > config_.limits.outbox_total_max_bytes) broken("D8: all outboxes together are over their bound");
}

// The hub's registry, the plan's and the server's are what the workers' frames make them.
void world::check_references() {
  std::map<std::string, std::size_t> expected;
  for (const auto& w : workers_) {
    if (!w.open) continue;
    if (w.doomed) return;  // its frames count up to one that only the hub knows
    for (const auto& [name, s] : w.channels)
      if (s.held || !s.pending.empty()) ++expected[name];
  }
  std::map<std::uint32_t, std::set<std::string_view>> of_users;
  for (const auto& v : engine_.the_hub().workers()) {
    of_users[engine_.members().at(v.id).who.uid].insert(v.channels.begin(), v.channels.end());
    if (engine_.door().has(v.id))
      for (const auto name : v.channels) ++expected[std::string(name)];
  }
  for (const auto& [uid, held] : of_users)
    if (held.size() > config_.limits.channels_of_user.ordinary)
      broken("K4: uid " + text(uid) + " holds " + text(held.size()) + " channels");
  const auto views = engine_.the_hub().channels();
  std::map<std::string, std::size_t> actual;
  for (const auto& v : views) actual[std::string(v.name)] = v.workers;
  if (actual != expected) {
    std::string all;
    for (const auto& [name, n] : expected) all += " " + name + ":" + text(n);
    all += " but has";
    for (const auto& [name, n] : actual) all += " " + name + ":" + text(n);
    broken("S7: the hub should hold" + all);
  }
  const auto& plan = engine_.the_upstream().plan();
  if (plan.wanted_count() != actual.size())
    broken("S7: " + text(actual.size()) + " channels are held, " + text(plan.wanted_count()) + " wanted");
  if (engine_.the_upstream().live() && !plan.in_flight() && link_.server && !link_.awaiting &&
      link_.arriving.empty() && plan.active_count() + 1 != link_.server->listening.size()) {
    // A name that was cut is taken back by the very next command.
    broken("S7: the plan has " + text(plan.active_count()) + " channels active, the server " +
           text(link_.server->listening.size() - 1));
  }
}

// D2: at most one durable wake of a channel waits behind the last ack, gap or fence.
void world::check_coalescing(model_worker& w) {
  auto* box = w.open ? engine_.open_outbox(w.id) : nullptr;
  if (box == nullptr || box->frames() < 3) return;
  const auto frames = waiting(w);
  std::map<std::string, int> waiting;
  std::size_t statuses = 0;
  for (std::size_t i = 1; i < frames.size(); ++i) {  // the first may be partly written
    from_hub message;
    std::string why;
    if (!decode(frames[i], message, why)) broken("a malformed frame waits");
    if (const auto* x = std::get_if<wake>(&message)) {
      if (x->payload || w.written + i < w.channels[channel_of(w, x->q)].fresh_from) continue;
      if (x->gap != gap_cause::none || !w.v1) {
        waiting[x->q] = w.v1 ? 0 : 1;
      } else if (++waiting[x->q] > 1) {
        broken("D2: two durable wakes of " + x->q + " wait for worker " + text(w.id));
      }
    } else if (const auto* a = std::get_if<ack>(&message)) {
      waiting[a->q] = 0;
    } else if (std::holds_alternative<fence>(message)) {
      waiting.clear();
    } else if (std::holds_alternative<status>(message)) {
      if (++statuses > 1) broken("D7: two status frames wait for worker " + text(w.id));
    }
  }
}

// G3: while the hub says that it is healthy, every channel that was promised is listened to.
void world::check_health() {
  if (!engine_.the_upstream().healthy()) return;
  if (link_.client != upstream_link::view::open) broken("healthy without a session");
  for (const auto& w : workers_) {
    if (!w.open || w.doomed) continue;
    for (const auto& [channel, s] : w.channels)
      if (s.real && s.covered && !listens(channel))
        broken("G3: healthy, but " + channel + " of worker " + text(w.id) + " is not listened to");
  }
}

// Nothing is on its way to this worker.
bool world::is_settled(const model_worker& w) const {
  if (!w.open || w.doomed || w.holds_frame || w.stalled || !w.out.empty() || !w.waiting.empty() ||
      !w.pipe.empty())
    return false;
  auto* box = engine_.open_outbox(w.id);
  if (box == nullptr || !box->empty() || !engine_.the_upstream().healthy() || !link_.arriving.empty() ||
      link_.awaiting || link_.black_hole || !link_.server || link_.busy)
    return false;
  // A LISTEN that failed may wait for its retry, but not once all trouble is over.
  return overdue_ || std::all_of(w.channels.begin(), w.channels.end(), [this](const auto& c) {
           return (!c.second.held && c.second.pending.empty()) || listens(c.first);
         });
}

void world::check_settled(model_worker& w) {
  if (!is_settled(w)) return;
  for (auto& [channel, s] : w.channels) {
    const auto who = "worker " + text(w.id) + ", " + channel + ": ";
    if (!s.unanswered.empty()) broken("S8: " + who + "a sub is never answered");
    if (!s.covered) continue;
    if (!s.due.empty())
      broken("D3: " + who + "commit " + text(s.due.front()) + " is lost and no gap announced");
    if (!s.dirty.empty()) broken("D2: " + who + "durable commit " + text(s.dirty.front()) + " is lost");
    if (s.owes_gap) broken("G1: " + who + "the outage was never announced");
  }
  if (!w.pings.empty()) broken("worker " + text(w.id) + " waits for a pong for ever");
  std::erase_if(w.fences, [this](const auto& f) { return f.second < listened_since("pgwake.fence"); });
  if (!w.fences.empty()) broken("C6: a fence of worker " + text(w.id) + " is lost");
}

}  // namespace pgwake::simulation
