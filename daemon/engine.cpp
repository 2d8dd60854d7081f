#include "daemon/engine.hpp"

#include <algorithm>
#include <tuple>
#include <type_traits>
#include <utility>

#include "common/log_field.hpp"

namespace pgwaked {

using namespace pgwake;

namespace {

constexpr std::size_t v0 = 0;
constexpr std::size_t v1 = 1;
constexpr std::size_t max_worker_name = 256;

queue_template template_of(const std::string& text) {
  auto parsed = queue_template::parse(text);
  return parsed ? std::move(*parsed)
                : *queue_template::parse("{}");  // the options reject what does not parse
}

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

// Cut at a character's border, for status and logs.
std::string shortened(std::string text) {
  if (text.size() <= max_worker_name) return text;
  auto end = max_worker_name;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  text.resize(end);
  return text;
}

}  // namespace

engine::engine(config c, std::uint64_t seed)
    : config_(std::move(c)),
      v0_(template_of(config_.queue_template)),
      hub_(config_.limits, {&v0_, &v1_}),
      upstream_(config_.upstream, seed) {}

void engine::start(steady_time now) {
  tell_health(now);
  upstream::actions out;
  upstream_.start(now, out);
  take(out, now);
  settle(now);
}

void engine::drain(millis grace, steady_time now) {
  draining_ = true;
  grace_ms_ = static_cast<std::uint32_t>(grace.count());
  tell_health(now);
  settle(now);
}

bool engine::drained() const {
  return std::none_of(members_.begin(), members_.end(), [this](const auto& m) {
    return m.second.protocol.speaks() == worker_protocol::dialect::v1 && hub_.holds_subscriptions(m.first);
  });
}

void engine::stop(steady_time now) {
  for (auto& [id, m] : members_) dismiss(id, m, code::shutdown, "the hub stops", now);
  upstream::actions out;
  upstream_.stop(out);
  take(out, now);
  settle(now);
}

void engine::change(const config& c, steady_time now) {
  auto kept_check = config_.upstream.self_check;
  auto kept_uuid = config_.hub_uuid;
  auto kept_template = config_.queue_template;
  config_ = c;
  config_.upstream.self_check = std::move(kept_check);
  config_.hub_uuid = std::move(kept_uuid);
  config_.queue_template = std::move(kept_template);
  hub_.change(config_.limits);
  upstream_.change(config_.upstream);
  settle(now);
}

void engine::reconnect(steady_time now) {
  upstream::actions out;
  upstream_.reconnect("operator", now, out);
  take(out, now);
  settle(now);
}

bool engine::evict(worker_id id, steady_time now) {
  const auto it = members_.find(id);
  if (it == members_.end()) return false;
  actions_.push_back(
      close_worker{id, false, "worker evicted", describe(id, it->second) + " reason=operator"});
  left(id, now);
  return true;
}

std::optional<bye> engine::refusal(const peer& who) const {
  if (members_.size() >= config_.max_workers)
    return bye{code::limit,
               "the hub serves " + std::to_string(members_.size()) + " workers already (max_workers)"};
  const bool admitted =
      config_.allow.empty() || std::any_of(config_.allow.begin(), config_.allow.end(),
                                           [&](const auto& rule) { return matches(rule, who); });
  if (!admitted) return bye{code::forbidden, "`allow` does not admit uid " + std::to_string(who.uid)};
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
  const auto id = hub_.join(v0, now);
  members_.emplace(
      id, member{who,
                 worker_protocol(template_of(config_.queue_template), access_of(who), config_.frame_deadline),
                 std::move(token), "", std::nullopt, now});
  return id;
}

void engine::bytes(worker_id id, std::string_view data, steady_time now) {
  const auto it = members_.find(id);
  if (it == members_.end() || it->second.dismissed) return;
  auto& m = it->second;
  auto events = std::exchange(events_, {});
  m.protocol.bytes(data, now, events);
  for (auto& e : events) {
    if (!members_.contains(id) || m.dismissed) break;
    take(id, m, e, now);
  }
  events.clear();
  events_ = std::move(events);  // its memory is used again
  if (members_.contains(id) && !m.dismissed) {
    if (const auto at = m.protocol.deadline())
      unfinished_[id] = *at;
    else
      unfinished_.erase(id);
  }
  settle(now);
}

void engine::take(worker_id id, member& m, worker_protocol::event& e, steady_time now) {
  if (!std::holds_alternative<worker_protocol::spoke>(e)) ++counts_.frames;
  if (auto* s = std::get_if<worker_protocol::subscribe>(&e)) {
    const auto& plan = upstream_.plan();
    const bool crowded = plan.held_count() >= config_.limits.max_channels;
    hub_.subscribe(id, s->channel, now);
    if (crowded) {
      // Lingering channels are given up first (K4).
      upstream::actions out;
      upstream_.shrink(config_.limits.max_channels - 1, now, out);
      take(out, now);
    }
  } else if (auto* u = std::get_if<worker_protocol::unsubscribe>(&e)) {
    hub_.unsubscribe(id, u->channel, now);
  } else if (auto* r = std::get_if<worker_protocol::reject>(&e)) {
    hub_.refuse(id, r->nack, now);
  } else if (auto* p = std::get_if<worker_protocol::pinged>(&e)) {
    hub_.answer(id, pong{p->id}, now);
  } else if (auto* g = std::get_if<worker_protocol::greeted>(&e)) {
    greet(id, m, g->hello, now);
  } else if (std::holds_alternative<worker_protocol::spoke>(e)) {
    hub_.greet(id, std::nullopt, now);
  } else if (std::holds_alternative<worker_protocol::asked_stats>(e)) {
    actions_.push_back(make_stats{id});
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
  hub_.set_dialect(id, v1);
  m.name = shortened(h.name.value_or(""));
  m.wants_db = h.db;
  welcome w;
  w.v = std::min(h.v, protocol_version);
  w.hub = config_.hub_uuid;
  w.version = config_.version;
  w.db = database_;
  w.system_id = system_id_;
  w.heartbeat_ms = static_cast<std::uint32_t>(config_.limits.heartbeat.count());
  w.fence = m.token;
  hub_.greet(id, w, now);
  if (h.db && database_ && *h.db != *database_)
    dismiss(id, m, code::wrong_database, "this hub serves database " + *database_ + ", not " + *h.db, now);
}

// The worker is told why, where its dialect knows how, and goes.
void engine::dismiss(worker_id id, member& m, code why, std::string reason, steady_time now) {
  if (std::exchange(m.dismissed, true)) return;
  unfinished_.erase(id);
  hub_.finish(id, bye{why, reason}, now);
  auto fields = describe(id, m) + " reason=" + std::string(to_string(why));
  actions_.push_back(close_worker{id, true, "worker dismissed", fields + " detail=" + log_field(reason)});
}

std::string engine::describe(worker_id id, const member& m) const {
  auto out = "worker=" + std::to_string(id) + " pid=" + std::to_string(m.who.pid) +
             " uid=" + std::to_string(m.who.uid);
  if (!m.name.empty()) out += " name=" + log_field(m.name);
  return out;
}

bool engine::may_read(worker_id id) {
  if (hub_.may_read(id)) return true;
  if (const auto it = members_.find(id); it != members_.end()) it->second.paused = true;
  return false;
}

void engine::left(worker_id id, steady_time now) {
  members_.erase(id);
  unfinished_.erase(id);
  hub_.leave(id, now);
  settle(now);
}

void engine::answer_stats(worker_id id, std::string json, steady_time now) {
  hub_.answer(id, stats{std::move(json)}, now);
  settle(now);
}

void engine::answer_control(worker_id id, control_answer answer, steady_time now) {
  hub_.answer(id, std::move(answer), now);
  settle(now);
}

void engine::connected(const session_info& info, steady_time now) {
  upstream::actions out;
  upstream_.connected(info, now, out);
  take(out, now);
  settle(now);
}

void engine::connect_failed(const connect_failure& failure, steady_time now) {
  upstream::actions out;
  upstream_.connect_failed(failure, now, out);
  take(out, now);
  settle(now);
}

void engine::notified_outside(std::string_view payload, const std::string& trouble, steady_time now) {
  upstream::actions out;
  upstream_.notified_outside(payload, trouble, now, out);
  take(out, now);
  settle(now);
}

void engine::result(const query_result& r, steady_time now) {
  upstream::actions out;
  upstream_.result(r, now, out);
  take(out, now);
  settle(now);
}

void engine::session_lost(std::string reason, steady_time now) {
  upstream::actions out;
  upstream_.session_lost(std::move(reason), now, out);
  take(out, now);
  settle(now);
}

void engine::notification(std::string_view channel, std::string_view payload, int by, steady_time now) {
  if (channel == fence_channel) {
    upstream::actions out;
    if (!upstream_.own_check(payload, now, out)) hub_.fence(payload, now);
    take(out, now);
  } else {
    hub_.notification(channel, payload, by, now);
  }
  settle(now);
}

void engine::tick(steady_time now, bool quiet) {
  upstream::actions out;
  upstream_.tick(now, quiet, out);
  take(out, now);
  hub_.tick(now);
  settle(now);
  std::vector<worker_id> due;  // closing one may end others
  for (const auto& [id, at] : unfinished_)
    if (at <= now) due.push_back(id);
  for (const auto id : due) {
    const auto it = members_.find(id);
    if (it == members_.end()) continue;
    auto& m = it->second;
    if (std::exchange(m.paused, !hub_.may_read(id))) {
      m.protocol.excuse(now);
      unfinished_[id] = now + config_.frame_deadline;
      continue;
    }
    std::vector<worker_protocol::event> events;
    m.protocol.tick(now, events);
    for (auto& e : events) take(id, m, e, now);
  }
  settle(now);
}

std::optional<steady_time> engine::deadline() const {
  auto at = upstream_.deadline();
  const auto sooner = [&at](const std::optional<steady_time>& other) {
    if (other) at = at ? std::min(*at, *other) : *other;
  };
  sooner(hub_.deadline());
  for (const auto& [id, due] : unfinished_) sooner(due);
  return at;
}

// Workers are told what changed for them; the server's words (detail) are for status alone.
void engine::tell_health(steady_time now) {
  const auto told = std::make_tuple(upstream_.healthy(), draining_, upstream_.reason());
  if (told_ == told) return;
  told_ = told;
  hub_.health(status{upstream_.healthy(), draining_, grace_ms_, upstream_.reason()}, now);
}

// The hub's wants go upstream, whose answers go to the hub, until neither has any.
void engine::settle(steady_time now) {
  while (!hub_.actions().empty()) {
    for (auto& a : std::exchange(hub_.actions(), {})) {
      upstream::actions out;
      if (auto* w = std::get_if<hub::want>(&a)) {
        if (upstream_.want(w->channel, now, out)) hub_.activated(w->channel, now);
      } else if (auto* u = std::get_if<hub::unwant>(&a)) {
        upstream_.unwant(u->channel, now, out);
      } else if (auto* e = std::get_if<hub::evict>(&a)) {
        const auto& m = members_.at(e->worker);
        actions_.push_back(close_worker{e->worker, false, "worker evicted",
                                        describe(e->worker, m) + " reason=" + e->reason +
                                            " outbox_bytes=" + std::to_string(e->bytes) +
                                            " outbox_frames=" + std::to_string(e->frames)});
        members_.erase(e->worker);
        unfinished_.erase(e->worker);
      }
      take(out, now);
    }
  }
}

void engine::take(upstream::actions& from, steady_time now) {
  for (auto& a : from) {
    std::visit(
        [&](auto& x) {
          using kind = std::decay_t<decltype(x)>;
          if constexpr (std::is_same_v<kind, upstream::connect>) {
            actions_.push_back(connect{});
          } else if constexpr (std::is_same_v<kind, upstream::send>) {
            actions_.push_back(send{std::move(x.sql)});
          } else if constexpr (std::is_same_v<kind, upstream::close>) {
            actions_.push_back(close_session{std::move(x.reason)});
          } else if constexpr (std::is_same_v<kind, upstream::notify_outside>) {
            actions_.emplace_back(std::move(x));
          } else if constexpr (std::is_same_v<kind, upstream::activated>) {
            hub_.activated(x.channel, now);
          } else if constexpr (std::is_same_v<kind, upstream::refused>) {
            hub_.refused(x.channel, x.why, x.sqlstate, x.reason, now);
          } else if constexpr (std::is_same_v<kind, upstream::lost>) {
            hub_.upstream_lost(now);
          } else if constexpr (std::is_same_v<kind, upstream::health>) {
            tell_health(now);
          } else if constexpr (std::is_same_v<kind, upstream::identified>) {
            database_ = x.database;
            system_id_ = x.system_id.empty() ? std::nullopt : std::optional(x.system_id);
            for (auto& [id, m] : members_)
              if (m.wants_db && *m.wants_db != *database_)
                dismiss(id, m, code::wrong_database,
                        "this hub serves database " + *database_ + ", not " + *m.wants_db, now);
          } else if constexpr (std::is_same_v<kind, upstream::note>) {
            actions_.push_back(
                note{x.how == upstream::note::level::warning, std::move(x.event), std::move(x.text)});
          }
        },
        a);
  }
}

}  // namespace pgwaked
