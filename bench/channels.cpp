#include <thread>

#include "bench/receivers.hpp"
#include "bench/scenario.hpp"

namespace pgwake::bench {
namespace {

constexpr std::size_t messages = 2'000;

std::vector<std::string> names(std::size_t count) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back("channel" + std::to_string(i));
  return out;
}

// Microseconds per notification of a burst over all channels, from the publisher's start to the last receipt.
std::vector<double> burst(PGconn* publisher, receivers& all, std::size_t channels) {
  const auto sql = "SELECT count(pg_notify('channel' || (i::bigint * 7919 % " + std::to_string(channels) +
                   "), 'a payload ' || i)) FROM generate_series(1, " + std::to_string(messages) + ") i";
  all.restart();
  const auto begin = steady::now();
  std::thread feeding([&] { execute(publisher, sql); });
  all.await_total(messages);
  const auto took = since(begin);
  feeding.join();
  return {took * 1e6 / messages};
}

void measure(context& c, std::size_t channels) {
  const auto variant = shown(static_cast<double>(channels)) + " channels";
  if (!c.wants(variant)) return;
  const auto hub = c.servers.make_hub({"--max-channels", "200000"});
  frame_workers worker(hub->socket(), 1, names(channels));
  receivers by_hub;
  worker.add_to(by_hub);
  PGconn* to_hub = connect_postgres(c.servers.hub_database());

  direct_sessions direct(c.servers.direct_database());
  direct.grow(1);
  std::string sql;
  for (const auto& name : names(channels)) sql += "LISTEN " + name + ";";
  execute(direct.at(0), sql);
  receivers by_direct;
  direct.add_to(by_direct, 1);
  PGconn* to_direct = connect_postgres(c.servers.direct_database());

  const std::vector<contestant> all = {
      {"pgwake", [&] { return burst(to_hub, by_hub, channels); }},
      {"direct (the server's own share)", [&] { return burst(to_direct, by_direct, channels); }},
  };
  const auto values = interleave(c, all);
  c.out.add(compared("channels", variant, "per notification", "us", all, values, 0));
  PQfinish(to_hub);
  PQfinish(to_direct);
}

}  // namespace

void run_channels(context& c) {
  if (c.quick) return;
  for (const std::size_t channels : {10U, 1'000U, 10'000U, 100'000U}) measure(c, channels);
}

}  // namespace pgwake::bench
