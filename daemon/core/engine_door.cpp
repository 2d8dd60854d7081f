#include <utility>

#include "daemon/core/engine.hpp"

// Workers that came by the front door: how they are let in, and what their sessions want done.
namespace pgwaked {

using namespace pgwake;

namespace {

constexpr std::size_t pg = 2;

}  // namespace

worker_id engine::joined_at_door(const peer& who, std::uint64_t secret, steady_time now, bool shut) {
  std::optional<door::sql_error> no;
  if (shut)
    no = door::sql_error{"57P03", "the hub's front door is not open at this socket",
                         "Connect to the server itself; the hub's log says what to set."};
  else if (auto why = refusal(who))
    no = door::sql_error{why->why == code::forbidden ? "28000" : "57P03", std::move(why->reason), {}};
  else if (auto full = crowded(who); !full.empty())
    no = door::sql_error{"57P03", std::move(full), {}};
  const auto id = hub_.join(pg, now, owner_of(who));
  members_.emplace(
      id, member{who, worker_protocol(queue_template_of(config_.queue_template), {}, config_.frame_deadline),
                 "", "", std::nullopt, now});
  ++users_[who.uid].workers;
  door_.join(id, access_of(who), std::move(no), secret, now);
  if (detail_ != detail::usual)
    actions_.push_back(note{note::level::debug, "worker joined", describe(id, members_.at(id))});
  return id;
}

void engine::resume(worker_id id, steady_time now) {
  door_.resume(id, now);
  settle(now);
}

void engine::take(front_door::action& a, steady_time now) {
  if (auto* s = std::get_if<front_door::subscribe>(&a)) {
    if (const auto m = members_.find(s->worker); m != members_.end())
      subscribe(s->worker, m->second, s->channel, now);
  } else if (auto* u = std::get_if<front_door::unsubscribe>(&a)) {
    hub_.unsubscribe(u->worker, u->channel, now);
  } else if (auto* y = std::get_if<front_door::say>(&a)) {
    hub_.say(y->worker, std::move(y->bytes), now);
  } else if (auto* h = std::get_if<front_door::hold>(&a)) {
    hub_.hold(h->worker, h->on);
  } else if (auto* k = std::get_if<front_door::keeps>(&a)) {
    hub_.keeps(k->worker, k->bytes);
  } else if (auto* n = std::get_if<front_door::admitted>(&a)) {
    if (const auto m = members_.find(n->worker); m != members_.end()) m->second.name = shown_name(n->name);
  } else if (auto* x = std::get_if<front_door::not_served>(&a)) {
    const auto m = members_.find(x->worker);
    if (m == members_.end()) return;
    actions_.push_back(note{note::level::warning, "statement refused",
                            describe(x->worker, m->second)
                                .add("sqlstate", x->why.sqlstate)
                                .add("reason", x->why.message)
                                .add("what_to_do", x->why.hint)});
  } else if (auto* c = std::get_if<front_door::close>(&a)) {
    const auto m = members_.find(c->worker);
    if (m == members_.end() || std::exchange(m->second.dismissed, true)) return;
    if (c->sqlstate == "08P01") ++counts_.protocol_errors;
    hub_.finish(c->worker, bye{}, now);
    auto fields = describe(c->worker, m->second).add("reason", c->sqlstate).add("detail", c->reason);
    actions_.push_back(close_worker{c->worker, true, c->sqlstate.empty() ? "" : "worker dismissed",
                                    std::move(fields), m->second.who.uid, true});
  }
}

}  // namespace pgwaked
