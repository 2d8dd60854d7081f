#include <algorithm>
#include <utility>

#include "daemon/core/engine.hpp"

// Workers: who is let in, what they say and in which turn, and how they go.
namespace pgwaked {

using namespace pgwake;

namespace {

constexpr std::size_t v0 = 0;
constexpr std::size_t v1 = 1;
constexpr std::size_t max_worker_name = 256;

// Frames: that are taken as they come between two turns, in one turn, and of one worker before the next has
// its turn. Each costs some microseconds, and PostgreSQL and outboxes are looked at in between.
constexpr std::size_t frames_at_once = 64;
constexpr std::size_t frames_of_turn = 128;
constexpr std::size_t frames_of_worker = 8;

// No frame that means anything is as large; so many bytes of larger ones that are not complete may
// one user have.
constexpr std::size_t large_frame = 4U << 10U;
constexpr std::size_t large_frames_of_user = 8U << 20U;

// How long a visitor of a full hub may take to say what it is.
constexpr millis visitor_patience{500};

bool matches(const admission& rule, const peer& who) {
  switch (rule.kind) {
    case admission::who::everyone:
      return true;
    case admission::who::uid:
      return rule.id == who.uid;
    case admission::who::gid:
      return rule.id == who.gid;
  }
  return false;
}

}  // namespace

std::string shown_name(std::string text) {
  if (text.size() <= max_worker_name) return text;
  auto end = max_worker_name;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  text.resize(end);
  return text;
}

// Coming and going

owner engine::owner_of(const peer& who) const {
  return {who.uid, who.uid == 0 || who.uid == config_.own_uid};
}

// Why there is no room for another of its workers; empty if there is.
std::string engine::crowded(const peer& who) const {
  if (workers() >= config_.max_workers)
    return "the hub serves " + std::to_string(workers()) + " workers already (max_workers)";
  const auto of = users_.find(who.uid);
  if (of != users_.end() && of->second.workers >= config_.workers_of_user.of(owner_of(who)))
    return "the hub serves " + std::to_string(of->second.workers) + " workers of uid " +
           std::to_string(who.uid) + " already (max_workers_per_user)";
  return {};
}

std::optional<bye> engine::refusal(const peer& who) const {
  const bool admitted =
      config_.allow.empty() || std::any_of(config_.allow.begin(), config_.allow.end(),
                                           [&](const auto& rule) { return matches(rule, who); });
  if (!admitted) return bye{code::forbidden, "`allow` does not admit uid " + std::to_string(who.uid)};
  if (auto why = crowded(who); !why.empty() && !(owner_of(who).privileged && visitors_ < most_visitors))
    return bye{code::limit, std::move(why)};
  return std::nullopt;
}

channel_access engine::access_of(const peer& who) const {
  channel_access access;
  access.all = config_.allow.empty();
  for (const auto& rule : config_.allow) {
    if (!matches(rule, who)) continue;
    access.all = access.all || rule.globs.empty();
    access.globs.insert(access.globs.end(), rule.globs.begin(), rule.globs.end());
  }
  return access;
}

worker_id engine::joined(const peer& who, std::string token, steady_time now) {
  const auto id = hub_.join(v0, now, owner_of(who));
  const bool visits = !crowded(who).empty();
  auto& m = members_
                .emplace(id, member{who,
                                    worker_protocol(queue_template_of(config_.queue_template), access_of(who),
                                                    config_.frame_deadline),
                                    std::move(token), "", std::nullopt, now})
                .first->second;
  auto& of = users_[who.uid];
  if (visits) {
    ++visitors_;
    m.admitted_until = now + visitor_patience;
    note_deadline(id, m);
  } else {
    ++of.workers;
  }
  if (detail_ != detail::usual)
    actions_.push_back(note{note::level::debug, "worker joined", describe(id, m)});
  return id;
}

void engine::forget(worker_id id) {
  const auto it = members_.find(id);
  if (it == members_.end()) return;
  auto& m = it->second;
  auto& of = users_[m.who.uid];
  if (m.operates || m.admitted_until)
    --visitors_;
  else
    --of.workers;
  of.unfinished -= m.unfinished;
  const bool last = of.workers == 0 && of.unfinished == 0;
  if (last) users_.erase(m.who.uid);
  if (m.due) deadlines_.erase({*m.due, id});
  door_.leave(id);
  held_back_.erase(id);
  members_.erase(it);
}

void engine::left(worker_id id, steady_time now) {
  if (const auto it = members_.find(id); it != members_.end() && detail_ != detail::usual)
    actions_.push_back(note{note::level::debug, "worker left", describe(id, it->second)});
  forget(id);
  hub_.leave(id, now);
  settle(now);
}

bool engine::evict(worker_id id, steady_time now) {
  const auto it = members_.find(id);
  if (it == members_.end()) return false;
  actions_.push_back(close_worker{id, false, "worker evicted",
                                  describe(id, it->second).add("reason", "operator"), it->second.who.uid});
  left(id, now);
  return true;
}

// The worker is told why, where its dialect knows how, and goes.
void engine::dismiss(worker_id id, member& m, code why, std::string reason, steady_time now, bool refused) {
  if (door_.has(id))
    return door_.dismiss(id, {why == code::protocol ? "08P01" : "57P01", std::move(reason), {}}, now);
  if (std::exchange(m.dismissed, true)) return;
  if (m.due) deadlines_.erase({*std::exchange(m.due, std::nullopt), id});
  hub_.finish(id, bye{why, reason}, now);
  actions_.push_back(close_worker{id, true, refused ? "worker refused" : "worker dismissed",
                                  describe(id, m).add("reason", to_string(why)).add("detail", reason),
                                  m.who.uid, false, refused});
}

// A visitor of a full hub that is no operator. It is refused like one that was not let in at all.
void engine::send_away(worker_id id, member& m, steady_time now) {
  hub_.set_dialect(id, v1);
  auto why = crowded(m.who);
  dismiss(id, m, code::limit, why.empty() ? "the hub was full (max_workers)" : std::move(why), now, true);
}

log_fields engine::describe(worker_id id, const member& m) const {
  log_fields out;
  out.add("worker", id).add("pid", m.who.pid).add("uid", m.who.uid);
  if (!m.name.empty()) out.add("name", m.name);
  return out;
}

// What they say

void engine::bytes(worker_id id, std::string_view data, steady_time now) {
  const auto it = members_.find(id);
  if (it == members_.end() || it->second.dismissed) return;
  if (door_.has(id)) {
    door_.bytes(id, data, now);
    return settle(now);
  }
  auto& m = it->second;
  m.protocol.bytes(data);
  if (m.waits) return;
  if (line_.empty() && spent_ < frames_at_once)
    spent_ += serve(id, frames_at_once - spent_, now);
  else
    stand_in_line(id, m);
  settle(now);
}

void engine::turn(steady_time now) {
  spent_ = 0;
  for (std::size_t taken = 0; taken < frames_of_turn; ++taken) {
    const auto id = line_.next();
    if (!id) break;
    const auto it = members_.find(*id);
    if (it == members_.end()) continue;
    it->second.waits = false;
    taken += serve(*id, frames_of_worker, now);
    if (may_read(*id)) readable_.push_back(*id);
  }
  settle(now);
}

// Takes up to `most` of its frames, its limits looked at before each; how many. It stands in line with more.
std::size_t engine::serve(worker_id id, std::size_t most, steady_time now) {
  std::size_t taken = 0;
  auto events = std::exchange(events_, {});
  member* m = nullptr;
  while (true) {
    const auto it = members_.find(id);
    m = it == members_.end() || it->second.dismissed ? nullptr : &it->second;
    if (m == nullptr) break;
    if (!hub_.may_read(id)) {
      m->held_back = true;
      held_back_.insert(id);
      break;
    }
    if (taken == most && m->protocol.held() > 0) {
      stand_in_line(id, *m);
      break;
    }
    events.clear();
    if (!m->protocol.next(now, events)) break;
    ++taken;
    ++m->taken;
    for (auto& e : events) {
      if (!members_.contains(id) || m->dismissed) break;
      take(id, *m, e, now);
    }
  }
  events.clear();
  events_ = std::move(events);  // its memory is used again
  if (m != nullptr) {
    note_deadline(id, *m);
    note_unfinished(id, *m, now);
  }
  return taken;
}

void engine::stand_in_line(worker_id id, member& m) {
  if (std::exchange(m.waits, true)) return;
  line_.add(m.who.uid, id);
}

// Its answers were written: what was read of it goes on.
void engine::let_go(worker_id id) {
  if (!held_back_.contains(id) || !hub_.may_read(id)) return;
  held_back_.erase(id);
  auto& m = members_.at(id);
  m.held_back = false;
  stand_in_line(id, m);
}

bool engine::may_read(worker_id id) {
  const auto it = members_.find(id);
  if (it == members_.end()) return false;
  auto& m = it->second;
  if (!m.waits && !m.held_back && hub_.may_read(id)) return door_.may_read(id);
  m.paused = true;
  return false;
}

void engine::note_deadline(worker_id id, member& m) {
  auto due = m.protocol.deadline();
  if (m.admitted_until) due = due ? std::min(*due, *m.admitted_until) : *m.admitted_until;
  if (due == m.due) return;
  if (m.due) deadlines_.erase({*m.due, id});
  m.due = due;
  if (due) deadlines_.emplace(*due, id);
}

void engine::note_unfinished(worker_id id, member& m, steady_time now) {
  const auto held = m.waits || m.held_back ? 0 : m.protocol.held();
  const auto counts = held > large_frame ? held : 0;
  if (counts == m.unfinished) return;
  auto& sum = users_[m.who.uid].unfinished;
  sum += counts - m.unfinished;
  m.unfinished = counts;
  if (sum > large_frames_of_user && counts > 0)
    dismiss(id, m, code::limit, "the unfinished frames of its user's workers take too much memory", now);
}

// Frames that were begun too long ago, and visitors that do not say what they are.
void engine::overdue(steady_time now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const auto id = deadlines_.begin()->second;
    auto& m = members_.at(id);
    const bool shut = m.waits || m.held_back || !hub_.may_read(id);
    if (m.admitted_until && *m.admitted_until <= now) {
      send_away(id, m, now);
    } else if (std::exchange(m.paused, shut) || shut) {
      m.protocol.excuse(now);
      note_deadline(id, m);
    } else {
      std::vector<worker_protocol::event> events;
      m.protocol.tick(now, events);
      for (auto& e : events) take(id, m, e, now);
    }
    if (const auto it = members_.find(id); it != members_.end() && it->second.due && *it->second.due <= now)
      deadlines_.erase({*std::exchange(it->second.due, std::nullopt), id});
  }
}

void engine::subscribe(worker_id id, const member& m, const std::string& channel, steady_time now) {
  if (m.operates)
    return hub_.refuse(
        id, nack{{channel, ""}, code::forbidden, "an operator's connection holds no subscriptions", ""}, now);
  const auto& plan = upstream_.plan();
  const bool full = plan.held_count() >= config_.limits.max_channels;
  hub_.subscribe(id, channel, now);
  if (!full) return;
  // Lingering channels are given up first (K4).
  upstream::actions out;
  upstream_.shrink(config_.limits.max_channels - 1, now, out);
  take(out, now);
}

void engine::take(worker_id id, member& m, worker_protocol::event& e, steady_time now) {
  if (!std::holds_alternative<worker_protocol::spoke>(e)) ++counts_.frames;
  if (detail_ == detail::trace) note_frame(id, e);
  if (auto* s = std::get_if<worker_protocol::subscribe>(&e)) {
    subscribe(id, m, s->channel, now);
  } else if (auto* u = std::get_if<worker_protocol::unsubscribe>(&e)) {
    hub_.unsubscribe(id, u->channel, now);
  } else if (auto* r = std::get_if<worker_protocol::reject>(&e)) {
    hub_.refuse(id, r->nack, now);
  } else if (auto* p = std::get_if<worker_protocol::pinged>(&e)) {
    hub_.answer(id, pong{p->id}, now);
  } else if (auto* g = std::get_if<worker_protocol::greeted>(&e)) {
    greet(id, m, g->hello, now);
  } else if (std::holds_alternative<worker_protocol::spoke>(e)) {
    if (m.admitted_until) return send_away(id, m, now);
    hub_.greet(id, std::nullopt, now);
    if (hopeless_) dismiss(id, m, code::listen_failed, unserved(), now);
  } else if (std::holds_alternative<worker_protocol::asked_stats>(e)) {
    const auto who = owner_of(m.who);
    desk_.ask({who.privileged, who.privileged ? 0 : who.uid}, id);
    work_desk(now);
  } else if (auto* c = std::get_if<worker_protocol::asked_control>(&e)) {
    actions_.push_back(do_control{id, std::move(c->control)});
  } else if (auto* b = std::get_if<worker_protocol::broken>(&e)) {
    ++counts_.protocol_errors;
    dismiss(id, m, code::protocol, std::move(b->reason), now);
  } else {
    ++counts_.unknown_frames;
  }
  settle(now);
}

void engine::greet(worker_id id, member& m, const hello& h, steady_time now) {
  m.name = shown_name(h.name.value_or(""));
  if (h.operates && owner_of(m.who).privileged) {
    m.operates = true;
    if (!std::exchange(m.admitted_until, std::nullopt)) {
      ++visitors_;
      --users_[m.who.uid].workers;
    }
  } else if (m.admitted_until) {
    return send_away(id, m, now);
  }
  hub_.set_dialect(id, v1);
  m.welcomed = true;
  m.wants_db = h.db;
  welcome w;
  w.v = std::min(h.v, protocol_version);
  w.hub = config_.hub_uuid;
  w.version = config_.version;
  w.db = database_;
  w.system_id = system_id_;
  w.heartbeat_ms = static_cast<std::uint32_t>(config_.limits.heartbeat.count());
  w.fence = m.token;
  hub_.greet(id, w, now, !m.operates);
  if (h.db && database_ && *h.db != *database_)
    dismiss(id, m, code::wrong_database, "this hub serves database " + *database_ + ", not " + *h.db, now);
}

// Answers

void engine::work_desk(steady_time now) {
  auto order = desk_.take(now);
  if (!order) return;
  asking_ = order->askers;
  actions_.push_back(make_stats{order->eyes, std::move(order->askers)});
}

void engine::answer_stats(std::string json, steady_time now) {
  hub_.answer_all(std::exchange(asking_, {}), stats{std::move(json)}, now);
  desk_.done(now);
  work_desk(now);
  settle(now);
}

void engine::answer_control(worker_id id, control_answer answer, steady_time now) {
  hub_.answer(id, std::move(answer), now);
  settle(now);
}

}  // namespace pgwaked
