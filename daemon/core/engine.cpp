#include "daemon/core/engine.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

namespace pgwaked {

using namespace pgwake;

queue_template queue_template_of(const std::string& text) {
  auto parsed = queue_template::parse(text);
  return parsed ? std::move(*parsed) : *queue_template::parse("{}");
}

engine::engine(config c, std::uint64_t seed)
    : config_(std::move(c)),
      v0_(queue_template_of(config_.queue_template)),
      door_({config_.frame_deadline, config_.front_door_grace}),
      hub_(config_.limits, {&v0_, &v1_, &pg_}),
      upstream_(config_.upstream, seed) {}

// What the upstream makes of an event is carried out at once, and all that follows from it.
template <class Call>
void engine::tell_upstream(steady_time now, Call call) {
  upstream::actions out;
  call(out);
  take(out, now);
  settle(now);
}

void engine::start(steady_time now) {
  tell_health(now);
  tell_upstream(now, [&](auto& out) { upstream_.start(now, out); });
}

void engine::drain(millis grace, steady_time now) {
  draining_ = true;
  grace_ms_ = static_cast<std::uint32_t>(grace.count());
  door_.drain(grace, now);
  tell_health(now);
  settle(now);
}

bool engine::drained() const {
  return door_.listeners() == 0 && std::none_of(members_.begin(), members_.end(), [this](const auto& m) {
           return m.second.protocol.speaks() == worker_protocol::dialect::v1 &&
                  hub_.holds_subscriptions(m.first);
         });
}

void engine::stop(steady_time now) {
  for (auto& [id, m] : members_) dismiss(id, m, code::shutdown, "the hub stops", now);
  tell_upstream(now, [&](auto& out) { upstream_.stop(out); });
}

void engine::change(const config& c, steady_time now) {
  auto kept_check = config_.upstream.self_check;
  auto kept_secret = config_.upstream.secret;
  auto kept_uuid = config_.hub_uuid;
  auto kept_template = config_.queue_template;
  config_ = c;
  config_.upstream.self_check = std::move(kept_check);
  config_.upstream.secret = std::move(kept_secret);
  config_.hub_uuid = std::move(kept_uuid);
  config_.queue_template = std::move(kept_template);
  hub_.change(config_.limits);
  upstream_.change(config_.upstream);
  door_.change({config_.frame_deadline, config_.front_door_grace});
  settle(now);
}

void engine::reconnect(steady_time now) {
  tell_upstream(now, [&](auto& out) { upstream_.reconnect("operator", now, out); });
}

void engine::hurry(steady_time now) {
  tell_upstream(now, [&](auto& out) { upstream_.hurry(now, out); });
}

void engine::connected(const session_info& info, steady_time now) {
  tell_upstream(now, [&](auto& out) { upstream_.connected(info, now, out); });
}

void engine::connect_failed(const connect_failure& failure, steady_time now) {
  tell_upstream(now, [&](auto& out) { upstream_.connect_failed(failure, now, out); });
}

void engine::notified_outside(std::string_view payload, const std::string& trouble, steady_time now) {
  tell_upstream(now, [&](auto& out) { upstream_.notified_outside(payload, trouble, now, out); });
}

void engine::result(const query_result& r, steady_time now) {
  tell_upstream(now, [&](auto& out) { upstream_.result(r, now, out); });
}

void engine::session_lost(std::string reason, steady_time now) {
  tell_upstream(now, [&](auto& out) { upstream_.session_lost(std::move(reason), now, out); });
}

void engine::notification(std::string_view channel, std::string_view payload, int by, steady_time now) {
  if (channel == fence_channel) {
    upstream::actions out;
    if (!upstream_.own_check(payload, now, out)) hub_.fence(payload, by, now);
    take(out, now);
  } else {
    if (detail_ == detail::trace)
      actions_.push_back(
          note{note::level::trace, "notification",
               log_fields().add("channel", channel).add("bytes", payload.size()).add("backend", by)});
    hub_.notification(channel, payload, by, now);
  }
  settle(now);
}

void engine::tick(steady_time now, bool quiet) {
  upstream::actions out;
  upstream_.tick(now, quiet, out);
  take(out, now);
  hub_.tick(now);
  door_.tick(now);
  judge_hope(now);
  settle(now);
  overdue(now);
  work_desk(now);
  settle(now);
}

std::optional<steady_time> engine::deadline() const {
  auto at = upstream_.deadline();
  const auto sooner = [&at](const std::optional<steady_time>& other) {
    if (other) at = at ? std::min(*at, *other) : *other;
  };
  sooner(hub_.deadline());
  sooner(door_.deadline());
  if (refused_since_ && !hopeless_) sooner(*refused_since_ + config_.hopeless_after);
  if (!deadlines_.empty()) sooner(deadlines_.begin()->first);
  sooner(desk_.deadline());
  return at;
}

// Workers are told what changed for them; the server's words (detail) are for status alone.
void engine::tell_health(steady_time now) {
  const pgwake::status told{upstream_.healthy(), draining_,        grace_ms_,
                            upstream_.reason(),  upstream_.full(), slots_};
  if (told_ == told) return;
  told_ = told;
  door_.health(upstream_.healthy(), now);
  hub_.health(told, now);
  judge_hope(now);
}

// S3: a worker that listens itself when it is closed, and cannot be told otherwise, is not kept by a
// hub whose login is refused for good. While the server is merely unreachable its own connection would
// fail as well.
void engine::judge_hope(steady_time now) {
  const auto& why = upstream_.reason();
  if (upstream_.healthy() || (why != "login" && why != "pooler")) {
    refused_since_.reset();
    hopeless_ = false;
    return;
  }
  if (!refused_since_) refused_since_ = now;
  if (hopeless_ || now < *refused_since_ + config_.hopeless_after) return;
  hopeless_ = true;
  for (auto& [id, m] : members_)
    if (!m.protocol.fresh() && !hub_.takes_no(id)) dismiss(id, m, code::listen_failed, unserved(), now);
}

std::string engine::unserved() const {
  return "the hub cannot log in (" + upstream_.reason() + "), so that its worker had better listen itself";
}

// The hub's wants go upstream, whose answers go to the hub, until neither has any.
void engine::settle(steady_time now) {
  while (!hub_.actions().empty() || !door_.actions().empty()) {
    for (auto& a : std::exchange(hub_.actions(), {})) take(a, now);
    for (auto& a : std::exchange(door_.actions(), {})) take(a, now);
  }
}

void engine::take(hub::action& a, steady_time now) {
  upstream::actions out;
  if (auto* w = std::get_if<hub::want>(&a)) {
    if (upstream_.want(w->channel, now, out, w->worker)) hub_.activated(w->channel, now);
  } else if (auto* u = std::get_if<hub::unwant>(&a)) {
    upstream_.unwant(u->channel, now, out);
  } else if (auto* e = std::get_if<hub::evict>(&a)) {
    const auto& m = members_.at(e->worker);
    actions_.push_back(close_worker{e->worker, false, "worker evicted",
                                    describe(e->worker, m)
                                        .add("reason", e->reason)
                                        .add("outbox_bytes", e->bytes)
                                        .add("outbox_frames", e->frames),
                                    m.who.uid});
    forget(e->worker);
  } else if (auto* t = std::get_if<hub::turn_away>(&a)) {
    // Unless the same frame was one too many for it, and an eviction follows.
    if (const auto m = members_.find(t->worker); m != members_.end() && hub_.view(t->worker, 0).has_value())
      dismiss(t->worker, m->second, t->why, std::move(t->reason), now);
  } else if (auto* k = std::get_if<hub::acked>(&a)) {
    door_.acked(k->worker, k->channel, now);
  } else if (auto* d = std::get_if<hub::denied>(&a)) {
    door_.denied(d->worker, *d, now);
  }
  take(out, now);
}

// Whoever was welcomed to another database is sent away to come again: what it was told decides with whom it
// may hand over.
void engine::identified(std::string database, std::string system_id, steady_time now) {
  const bool moved =
      (database_ && *database_ != database) || (system_id_ && !system_id.empty() && *system_id_ != system_id);
  database_ = std::move(database);
  door_.served_by({upstream_.session().server_version, *database_}, now);
  system_id_ = system_id.empty() ? std::nullopt : std::optional(std::move(system_id));
  for (auto& [id, m] : members_) {
    if (m.wants_db && *m.wants_db != *database_)
      dismiss(id, m, code::wrong_database, "this hub serves database " + *database_ + ", not " + *m.wants_db,
              now);
    else if (moved && m.welcomed)
      dismiss(id, m, code::moved, "another database or cluster answers here now", now);
  }
}

void engine::take(upstream::actions& from, steady_time now) {
  for (auto& a : from) {
    if (detail_ != detail::usual) note_step(a);
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
            door_.lost(now);
          } else if constexpr (std::is_same_v<kind, upstream::health>) {
            tell_health(now);
          } else if constexpr (std::is_same_v<kind, upstream::identified>) {
            slots_ = x.slots;
            identified(std::move(x.database), std::move(x.system_id), now);
          } else if constexpr (std::is_same_v<kind, upstream::note>) {
            actions_.push_back(
                note{x.how == upstream::note::level::warning ? note::level::warning : note::level::info,
                     std::move(x.event), std::move(x.fields)});
          }
        },
        a);
  }
}

}  // namespace pgwaked
