#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/gate.hpp"
#include "bench/report.hpp"
#include "bench/world.hpp"

namespace pgwake::bench {

struct context {
  world& servers;
  report& out;
  gate& lock;
  bool quick;                      // only the cells with a bar
  std::size_t repetitions;         // pairs
  bool keep_instructions = false;  // write bench/instructions.txt anew
  std::string only;                // cells whose variant holds this text; empty: all
  bool wants(const std::string& variant) const { return variant.find(only) != std::string::npos; }
};

// One repetition of one contestant: the value of each metric.
using repetition = std::function<std::vector<double>()>;
struct contestant {
  std::string name;
  repetition run;
};
// By contestant, metric, repetition.
using measured = std::vector<std::vector<std::vector<double>>>;

// Every contestant once for warming up, then in turns, so that all meet the machine in the same moods.
measured interleave(const context& c, const std::vector<contestant>& all);

// A cell out of two contestants' values of one metric.
cell compared(const std::string& scenario, const std::string& variant, const std::string& metric,
              const std::string& unit, const std::vector<contestant>& all, const measured& values,
              std::size_t metric_index, std::size_t ours = 0, std::size_t rival = 1);

struct scenario {
  const char* name;
  const char* about;
  void (*run)(context&);
};
const std::vector<scenario>& scenarios();

void run_latency(context& c);
void run_rate(context& c);
void run_fanout(context& c);
void run_door(context& c);
void run_memory(context& c);
void run_client(context& c);
void run_subscribe(context& c);
void run_channels(context& c);
void run_idle(context& c);
void run_recovery(context& c);
void run_failover(context& c);
void run_instructions(context& c);

}  // namespace pgwake::bench
