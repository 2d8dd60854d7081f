#pragma once

#include <string>
#include <vector>

#include "daemon/core/hub.hpp"
#include "unit/core/describe.hpp"

namespace pgwake::test {

// A hub whose workers read at once when asked: read(w) takes all that waits for w, in words.
struct hub_rig {
  using strings = std::vector<std::string>;

  explicit hub_rig(pgwaked::hub::limits limits = {}) : hub(limits, {&v0, &v1}) {}

  pgwaked::dialect_v0 v0{*queue_template::parse("q_{}")};
  pgwaked::dialect_v1 v1;
  pgwaked::hub hub;
  steady_time now{};

  // Greeted, and its first frames read.
  pgwaked::worker_id join(std::size_t dialect = 1, const std::string& token = "") {
    const auto id = hub.join(dialect, now);
    if (dialect == 1) {
      welcome w;
      w.fence = token.empty() ? "token" + std::to_string(id) : token;
      hub.greet(id, w, now);
    } else {
      hub.greet(id, std::nullopt, now);
    }
    read(id);
    return id;
  }
  void healthy(bool yes = true) { hub.health({yes, false, 0, yes ? "" : "outage"}, now); }

  strings peek(pgwaked::worker_id id) {
    auto* box = hub.open_outbox(id);
    return box == nullptr ? strings{"GONE"} : describe_stream(waiting_bytes(*box));
  }
  strings read(pgwaked::worker_id id) {
    auto out = peek(id);
    if (auto* box = hub.open_outbox(id)) hub.written(id, waiting_bytes(*box).size());
    return out;
  }

  // What the hub asked of its owner since the last call, in words.
  strings asked() {
    strings out;
    for (const auto& a : std::exchange(hub.actions(), {})) {
      if (const auto* w = std::get_if<pgwaked::hub::want>(&a)) out.push_back("want " + w->channel);
      if (const auto* u = std::get_if<pgwaked::hub::unwant>(&a)) out.push_back("unwant " + u->channel);
      if (const auto* e = std::get_if<pgwaked::hub::evict>(&a))
        out.push_back("evict " + std::to_string(e->worker) + " " + e->reason);
      if (const auto* t = std::get_if<pgwaked::hub::turn_away>(&a))
        out.push_back("turn away " + std::to_string(t->worker) + " " + std::string(to_string(t->why)));
    }
    return out;
  }
  // Subscribes and, as the owner would, has it active.
  void active(pgwaked::worker_id id, const std::string& channel) {
    hub.subscribe(id, channel, now);
    hub.activated(channel, now);
    read(id);
    asked();
  }
};

}  // namespace pgwake::test
