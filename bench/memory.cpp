#include <unistd.h>

#include <string>
#include <thread>

#include "bench/process_memory.hpp"
#include "bench/receivers.hpp"
#include "bench/scenario.hpp"

namespace pgwake::bench {
namespace {

constexpr double mib = 1024;  // of KiB

double rss_mib(pid_t pid) { return resident_kib(pid) / mib; }

cell plain(const std::string& variant, const std::string& unit, std::vector<double> values,
           std::optional<bar> wanted = std::nullopt) {
  cell c;
  c.scenario = "memory";
  c.variant = variant;
  c.metric = "resident";
  c.unit = unit;
  c.ours = {"pgwake", std::move(values)};
  c.wanted = wanted;
  return c;
}

std::vector<std::string> channels_of(std::size_t worker, std::size_t count) {
  std::vector<std::string> out;
  for (std::size_t k = 0; k < count; ++k)
    out.push_back("bench.worker" + std::to_string(worker) + ".channel" + std::to_string(k));
  return out;
}

std::vector<std::unique_ptr<frame_workers>> make_workers(const std::string& socket, std::size_t count,
                                                         std::size_t channels_each) {
  std::vector<std::unique_ptr<frame_workers>> out;
  for (std::size_t i = 0; i < count; ++i)
    out.push_back(std::make_unique<frame_workers>(socket, 1, channels_of(i, channels_each)));
  return out;
}

// The hub alone, with 1,000 workers of no channel, and with 10 channels each.
void measure_census(context& c) {
  std::vector<double> idle;
  std::vector<double> grown;
  std::vector<double> per_worker;
  std::vector<double> per_channel;
  for (std::size_t i = 0; i < c.repetitions; ++i) {
    const auto hub = c.servers.make_hub();
    idle.push_back(rss_mib(hub->child().pid()));
    {
      const auto bare = make_workers(hub->socket(), 1000, 0);
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      per_worker.push_back((rss_mib(hub->child().pid()) - idle.back()) * mib / 1000);
    }
    const auto fresh = c.servers.make_hub();
    const auto before = rss_mib(fresh->child().pid());
    const auto workers = make_workers(fresh->socket(), 1000, 10);
    grown.push_back(rss_mib(fresh->child().pid()) - before);
    per_channel.push_back((grown.back() * mib - per_worker.back() * 1000) / 10'000);
  }
  c.out.add(plain("idle hub", "MiB", idle, at_most(16)));
  c.out.add(plain("1,000 workers with 10 channels each, more", "MiB", grown, at_most(40)));
  c.out.add(plain("a worker", "KiB", per_worker));
  c.out.add(plain("a channel with one worker", "KiB", per_channel));
}

// What a worker that has stopped reading costs until the hub evicts it.
void measure_stopped(context& c) {
  std::vector<double> most;
  std::vector<double> after;
  for (std::size_t i = 0; i < c.repetitions; ++i) {
    const auto hub = c.servers.make_hub();
    const auto pid = hub->child().pid();
    const auto idle = rss_mib(pid);
    frame_workers stopped(hub->socket(), 1, {"bench"});
    PGconn* publisher = connect_postgres(c.servers.hub_database());
    double highest_seen = 0;
    for (int n = 0; n < 40; ++n) {
      execute(publisher,
              "SELECT pg_notify('bench', lpad(i::text, 7900, 'x')) FROM generate_series(1, 100) i");
      highest_seen = std::max(highest_seen, rss_mib(pid) - idle);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    most.push_back(highest_seen);
    after.push_back(rss_mib(pid) - idle);
    PQfinish(publisher);
  }
  c.out.add(plain("a stopped worker, at most (its bound is 16 MiB)", "MiB", most));
  c.out.add(plain("after its eviction", "MiB", after));
}

// The same census as sessions of PostgreSQL: their proportional set size, which counts shared pages once.
void measure_backends(context& c) {
  constexpr std::size_t count = 1000;
  const auto hub = c.servers.make_hub();
  const auto pss = [](int pid) {
    return field_kib("/proc/" + std::to_string(pid) + "/smaps_rollup", "Pss:");
  };
  direct_sessions sessions(c.servers.direct_database());
  sessions.grow(count);
  double backends = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::string sql;
    for (const auto& name : channels_of(i, 10)) sql += "LISTEN \"" + name + "\";";
    execute(sessions.at(i), sql);
  }
  for (std::size_t i = 0; i < count; ++i) backends += pss(PQbackendPID(sessions.at(i))) / mib;
  const auto workers = make_workers(hub->socket(), count, 10);
  const double own_backend = pss(c.servers.postgres().backend_pids().at(0)) / mib;
  cell out = plain("the census of 1,000 x 10 channels, its one backend included", "MiB",
                   {pss(hub->child().pid()) / mib + own_backend});
  out.metric = "proportional set size";
  out.rival = series{"1,000 backends", {backends}};
  c.out.add(std::move(out));
}

}  // namespace

void run_memory(context& c) {
  measure_census(c);
  if (c.quick) return;
  measure_stopped(c);
  measure_backends(c);
}

}  // namespace pgwake::bench
