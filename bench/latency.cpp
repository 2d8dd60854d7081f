#include "bench/publisher.hpp"
#include "bench/receivers.hpp"
#include "bench/relay.hpp"
#include "bench/scenario.hpp"

namespace pgwake::bench {
namespace {

const std::string channel = "bench";
std::optional<bar> bar_for(std::size_t n) {
  switch (n) {
    case 1:
      return at_most(1.15);
    case 8:
      return at_most(0.80);
    case 128:
      return at_most(0.25);
    case 512:
      return at_most(0.15);
    default:
      return std::nullopt;
  }
}

}  // namespace

void run_latency(context& c) {
  const auto hub = c.servers.make_hub();
  direct_sessions direct(c.servers.direct_database());
  publisher to_hub(c.servers.hub_database(), channel);
  publisher to_direct(c.servers.direct_database(), channel);
  publisher to_relay(c.servers.relay_database(), channel);
  for (const std::size_t n : {1U, 8U, 32U, 128U, 512U}) {
    const auto variant = std::to_string(n) + (n == 1 ? " receiver" : " receivers");
    if (!c.wants(variant) || (c.quick && !bar_for(n))) continue;
    frame_workers workers(hub->socket(), n, {channel});
    receivers by_hub;
    workers.add_to(by_hub);
    direct.listen(n, channel);
    receivers by_direct;
    direct.add_to(by_direct, n);
    std::vector<contestant> all = {
        {"pgwake",
         [&] {
           direct.listen(0, channel);
           return to_hub.run(by_hub);
         }},
        {"direct",
         [&] {
           direct.listen(n, channel);
           return to_direct.run(by_direct);
         }},
    };
    std::optional<bare_relay> relay;
    receivers by_relay;
    if (n == 1 && !c.quick) {
      relay.emplace(c.servers.relay_database(), channel);
      relay->add_to(by_relay);
      all.push_back({"a bare relay", [&] { return to_relay.run(by_relay); }});
    }
    const auto values = interleave(c, all);
    auto p50 = compared("latency", variant, "p50", "us", all, values, 0);
    p50.wanted = bar_for(n);
    c.out.add(std::move(p50));
    c.out.add(compared("latency", variant, "p99", "us", all, values, 1));
    // What standing in between costs at least: see relay.hpp.
    if (relay) c.out.add(compared("latency", variant, "p50, a bare relay", "us", all, values, 0, 2, 1));
  }
}

}  // namespace pgwake::bench
