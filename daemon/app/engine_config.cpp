#include "daemon/app/engine_config.hpp"

#include <unistd.h>

#include <algorithm>

#include "common/pg/conninfo.hpp"
#include "daemon/io/farewell.hpp"
#include "daemon/metrics/server.hpp"

namespace pgwaked {

using namespace pgwake;

namespace {

// Descriptors that are not workers': standard streams, lock, listener, epoll, timers, libpq twice, resolver
// files; and a few connections of operators to a full hub.
constexpr std::uint64_t reserved_descriptors = 40;
// Its lock and listener, and those that are refused or have just been told to go.
constexpr std::uint64_t front_door_descriptors = 2 + engine::most_refused + farewell::most;

// What a worker needs, and many times that; all together they hold no more than so many each.
constexpr std::size_t subscriptions_each = 1'000;

// 0 leaves a quarter to other users; root and the hub's own user are not held to that.
quota quota_of(std::uint64_t setting, std::size_t all) {
  if (setting == 0) return {all - all / 4, all};
  return {setting, setting};
}

admission admission_of(const allow_rule& rule) {
  admission out;
  out.kind = rule.kind == allow_rule::who::uid   ? admission::who::uid
             : rule.kind == allow_rule::who::gid ? admission::who::gid
                                                 : admission::who::everyone;
  out.id = rule.id;
  out.globs = rule.globs;
  return out;
}

}  // namespace

engine::config engine_config(const settings& s, std::uint64_t nofile) {
  engine::config c;
  c.upstream.probe_interval = s.probe_interval;
  c.upstream.probe_timeout = s.probe_timeout;
  c.upstream.allow_session_pooler = s.allow_session_pooler;
  c.upstream.listen.linger = s.unlisten_linger;
  c.limits.outbox_max_bytes = s.outbox_max_bytes;
  c.limits.outbox_max_frames = s.outbox_max_frames;
  c.limits.outbox_total_max_bytes = s.outbox_total_max_bytes;
  c.limits.max_channels = s.max_channels;
  c.limits.heartbeat = s.heartbeat;
  c.queue_template = s.queue_template;
  c.frame_deadline = s.frame_deadline;
  c.front_door_grace = s.front_door_grace;
  const auto reserved =
      reserved_descriptors + (s.front_door ? front_door_descriptors : 0) +
      (s.metrics_listen.kind == metrics_address::family::off ? 0 : metrics_server::descriptors);
  c.max_workers = std::min(s.max_workers, nofile > 2 * reserved ? nofile - reserved : nofile / 2);
  c.workers_of_user = quota_of(s.max_workers_per_user, c.max_workers);
  c.limits.max_subscriptions =
      std::max(c.limits.max_subscriptions_of_user, subscriptions_each * c.max_workers);
  c.limits.channels_of_user = quota_of(s.max_channels_per_user, c.limits.max_channels);
  c.own_uid = geteuid();
  for (const auto& rule : s.allow) c.allow.push_back(admission_of(rule));
  c.version = PGWAKE_VERSION_STRING;
  return c;
}

std::string database_fault(const loaded& what) {
  const auto conninfo = read_database(what.values, real_surroundings());
  if (!conninfo) return {};
  const auto fault = pg::conninfo_fault(*conninfo);
  if (fault.empty()) return {};
  const std::string_view name = what.values.database_file.empty() ? "database" : "database_file";
  return std::string(name) + ": " + fault + " (from " + what.origin_of(name).text +
         "); write a libpq connection string, such as host=db.example dbname=shop user=app, or "
         "postgresql://app@db.example/shop";
}

}  // namespace pgwaked
