#include <filesystem>
#include <fstream>

#include "bench/receivers.hpp"
#include "bench/scenario.hpp"

namespace pgwake::bench {
namespace {

struct usage {
  double cpu_seconds = 0;
  double wake_ups = 0;
};

// All threads of a process: time on a processor (to the nanosecond) and voluntary context switches.
usage usage_of(pid_t pid) {
  usage out;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    double ns = 0;
    std::ifstream(task.path() / "schedstat") >> ns;
    out.cpu_seconds += ns / 1e9;
    std::ifstream in(task.path() / "status");
    for (std::string line; std::getline(in, line);)
      if (line.rfind("voluntary_ctxt_switches:", 0) == 0) out.wake_ups += std::stod(line.substr(24));
  }
  return out;
}

cell plain(const std::string& variant, const std::string& metric, const std::string& unit,
           std::vector<double> values) {
  cell c;
  c.scenario = "idle";
  c.variant = variant;
  c.metric = metric;
  c.unit = unit;
  c.ours = {"pgwake", std::move(values)};
  return c;
}

}  // namespace

// Nothing is published; each worker gets its heartbeats.
void run_idle(context& c) {
  const double seconds = c.quick ? 5 : 15;  // one and three heartbeats
  const auto hub = c.servers.make_hub();
  for (const std::size_t workers : {0U, 1000U}) {
    if (c.quick && workers == 0) continue;
    std::vector<double> cpu;
    std::vector<double> wake_ups;
    frame_workers all(hub->socket(), workers, {"bench"});
    receivers reading;
    all.add_to(reading);
    for (std::size_t i = 0; i < c.repetitions; ++i) {
      const measuring now(c.lock);
      const auto before = usage_of(hub->child().pid());
      const auto begin = steady::now();
      while (since(begin) < seconds) reading.turn(100);
      const auto after = usage_of(hub->child().pid());
      cpu.push_back((after.cpu_seconds - before.cpu_seconds) / since(begin) * 100);
      wake_ups.push_back((after.wake_ups - before.wake_ups) / since(begin) * 60);
    }
    const auto variant = std::to_string(workers) + " idle workers";
    auto used = plain(variant, "share of a core", "%", cpu);
    if (workers > 0) used.wanted = at_most(0.2);
    c.out.add(std::move(used));
    c.out.add(plain(variant, "wake-ups", "/min", wake_ups));
  }
}

}  // namespace pgwake::bench
