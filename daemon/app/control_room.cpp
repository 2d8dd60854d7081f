#include "daemon/app/control_room.hpp"

#include <unistd.h>

#include <charconv>

#include "common/units.hpp"
#include "daemon/settings/option_table.hpp"
#include "daemon/settings/option_value.hpp"
#include "daemon/settings/toml.hpp"

namespace pgwaked {

using namespace pgwake;

namespace {

std::optional<worker_id> worker_of(const std::string& text) {
  worker_id id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return id;
}

control_answer evict(engine& hub, worker_id asker, const std::string& arg, steady_time now) {
  const auto victim = worker_of(arg);
  if (!victim || *victim == asker || !hub.members().contains(*victim))
    return {false, "there is no worker " + toml::quote(arg) + "; `pgwaked status` lists their numbers"};
  const auto who = hub.members().at(*victim).who;
  hub.evict(*victim, now);
  return {true, "worker " + arg + " (PID " + std::to_string(who.pid) + ", uid " + std::to_string(who.uid) +
                    ") is evicted; it may connect again"};
}

control_answer set_level(const std::string& arg, const control_powers& powers) {
  settings scratch;
  if (const auto why = assign(*find_option("log_level"), {arg}, {}, scratch)) return {false, *why};
  powers.set_log_level(scratch.log_level);
  return {true, "the log level is " + arg + " until the next reload or restart"};
}

}  // namespace

control_answer carry_out_control(engine& hub, worker_id asker, const control_request& wish,
                                 const control_powers& powers, steady_time now) {
  const auto uid = hub.members().at(asker).who.uid;
  if (uid != 0 && uid != geteuid())
    return {false, "only root and the user that the hub runs as (uid " + std::to_string(geteuid()) +
                       ") may control it; you are uid " + std::to_string(uid)};
  if (wish.what == "evict") return evict(hub, asker, wish.arg, now);
  if (wish.what == "log-level") return set_level(wish.arg, powers);
  if (wish.what == "reconnect") {
    if (hub.draining()) return {false, "the hub is about to stop"};
    hub.reconnect(now);
    return {true, "the hub connects to PostgreSQL anew; each worker gets a gap on each of its channels"};
  }
  if (wish.what == "drain") {
    powers.drain();
    return {true,
            "the hub tells its workers and stops within " + format_duration(powers.current.drain_grace)};
  }
  return {false, "this hub knows no control " + toml::quote(wish.what) +
                     "; it knows evict, log-level, reconnect and drain"};
}

}  // namespace pgwaked
