#include "bench/scenario.hpp"

namespace pgwake::bench {

measured interleave(const context& c, const std::vector<contestant>& all) {
  measured out(all.size());
  {
    const measuring now(c.lock);
    for (const auto& one : all) one.run();
  }
  const measuring now(c.lock);
  for (std::size_t i = 0; i < c.repetitions; ++i) {
    c.lock.enter();
    for (std::size_t k = 0; k < all.size(); ++k) {
      const auto who = (i + k) % all.size();
      const auto values = all[who].run();
      out[who].resize(values.size());
      for (std::size_t m = 0; m < values.size(); ++m) out[who][m].push_back(values[m]);
    }
  }
  return out;
}

cell compared(const std::string& scenario, const std::string& variant, const std::string& metric,
              const std::string& unit, const std::vector<contestant>& all, const measured& values,
              std::size_t metric_index, std::size_t ours, std::size_t rival) {
  cell c;
  c.scenario = scenario;
  c.variant = variant;
  c.metric = metric;
  c.unit = unit;
  c.ours = {all[ours].name, values[ours][metric_index]};
  c.rival = series{all[rival].name, values[rival][metric_index]};
  return c;
}

const std::vector<scenario>& scenarios() {
  static const std::vector<scenario> all = {
      {"latency", "NOTIFY to the last of N receivers", run_latency},
      {"rate", "how fast publishers go with N receivers", run_rate},
      {"fanout", "deliveries per second of a burst, beside Redis and NATS", run_fanout},
      {"door", "drivers through the front door, beside LISTEN at the server", run_door},
      {"client", "through the client library, beside raw frames", run_client},
      {"subscribe", "how long until an ack, beside an echo and LISTEN", run_subscribe},
      {"channels", "cost per notification by the number of channels", run_channels},
      {"memory", "resident memory of the hub, beside PostgreSQL's backends", run_memory},
      {"idle", "processor time and wake-ups with idle workers", run_idle},
      {"recovery", "until all channels are active again after the session was ended", run_recovery},
      {"failover", "from the hub's death to the first wake over the own connection", run_failover},
      {"instructions", "instructions for routing and encoding, beside those kept", run_instructions},
  };
  return all;
}

}  // namespace pgwake::bench
