#include <fstream>
#include <map>

#include "bench/scenario.hpp"
#include "support/process.hpp"

namespace pgwake::bench {
namespace {

constexpr double bearable = 1.03;  // beside what is kept; more is a change that costs

struct part {
  const char* name;
  const char* about;
};
constexpr part parts[] = {
    {"durable", "10,000 durable to 64 workers"},
    {"solo", "10,000 of 100 B to one worker"},
    {"100", "10,000 of 100 B to 64 workers"},
    {"1024", "10,000 of 1 KB to 64 workers"},
    {"json", "10,000 of 1 KB of JSON to 64 workers"},
    {"spread", "10,000 of 100 B over 64 channels of 8 workers each"},
    {"ack", "10,000 subs of an active channel"},
    {"subscribe", "10,000 new channels"},
    {"client", "10,000 of 100 B from the hub's bytes to a client's application"},
};

std::map<std::string, double> kept() {
  std::map<std::string, double> out;
  std::ifstream in(PGWAKE_BENCH_INSTRUCTIONS);
  for (std::string name, count; in >> name >> count;) out[name] = std::stod(count);
  return out;
}

// Millions of instructions inside measured_part() of pgwake_routing.
double counted(const std::string& name) {
  const auto result = test::run(
      {.argv = {"valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no",
                "--toggle-collect=measured_part", PGWAKE_BENCH_ROUTING, name}},
      std::chrono::seconds(120));
  const std::string mark = "Collected : ";
  const auto at = result.err.find(mark);
  if (result.exit_code != 0 || at == std::string::npos)
    throw std::runtime_error("callgrind failed:\n" + result.err);
  return std::stod(result.err.substr(at + mark.size())) / 1e6;
}

}  // namespace

void run_instructions(context& c) {
  const auto before = kept();
  std::ofstream fresh;
  if (c.keep_instructions) fresh.open(PGWAKE_BENCH_INSTRUCTIONS);
  for (const auto& p : parts) {
    if (!c.wants(p.name)) continue;
    series now{"pgwake", {counted(p.name)}};
    if (!c.quick) now.values.push_back(counted(p.name));
    cell out{"instructions", p.about, "instructions", "million", now, std::nullopt, std::nullopt};
    if (const auto at = before.find(p.name); at != before.end() && !c.keep_instructions) {
      out.rival =
          series{"kept in bench/instructions.txt", std::vector<double>(now.values.size(), at->second)};
      out.wanted = at_most(bearable);
    }
    if (fresh.is_open()) fresh << p.name << ' ' << median(now.values) << '\n';
    c.out.add(std::move(out));
  }
}

}  // namespace pgwake::bench
