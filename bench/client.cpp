#include <thread>

#include "bench/receivers.hpp"
#include "bench/scenario.hpp"
#include "bench/worker_processes.hpp"

namespace pgwake::bench {
namespace {

constexpr double repetition_seconds = 0.7;

// p50 and p99 of NOTIFY to the last worker process, in microseconds.
std::vector<double> latency(PGconn* publisher, const std::string& channel, worker_processes& workers) {
  std::vector<double> samples;
  const auto begin = steady::now();
  while (samples.size() < 20 || since(begin) < repetition_seconds) {
    workers.expect(1);
    const auto sent = steady::now();
    const auto sql = "NOTIFY \"" + channel + "\", '" + std::to_string(samples.size()) + "'";
    if (PQsendQuery(publisher, sql.c_str()) == 0) throw std::runtime_error(PQerrorMessage(publisher));
    workers.await();
    samples.push_back(since(sent) * 1e6);
    while (PGresult* result = PQgetResult(publisher)) PQclear(result);
  }
  return {percentile(samples, 0.5), percentile(samples, 0.99)};
}

std::vector<double> burst(PGconn* publisher, const std::string& channel, worker_processes& workers) {
  const std::size_t messages = 400'000 / workers.size();
  const auto sql = "SELECT count(pg_notify('" + channel + "', (1000000 + i)::text || '" +
                   std::string(93, 'x') + "')) FROM generate_series(1, " + std::to_string(messages) + ") i";
  workers.expect(messages);
  const std::jthread feeding([&] { execute(publisher, sql); });
  workers.await();
  return {workers.deliveries_per_second()};
}

void measure(context& c, const std::string& socket, std::size_t n) {
  using kind = worker_processes::kind;
  const auto variant = std::to_string(n) + (n == 1 ? " process" : " processes");
  if (!c.wants(variant) || (c.quick && n > 8)) return;
  worker_processes frames(kind::frames, n, socket, "frames");
  worker_processes unread(kind::unread_frames, n, socket, "unread");
  worker_processes library(kind::library, n, socket, "library");
  worker_processes direct(kind::direct, n, c.servers.direct_database(), "direct");
  PGconn* to_hub = connect_postgres(c.servers.hub_database());
  PGconn* to_direct = connect_postgres(c.servers.direct_database());
  const auto all_metrics = [](PGconn* publisher, const std::string& channel, worker_processes& workers) {
    auto out = latency(publisher, channel, workers);
    out.push_back(burst(publisher, channel, workers).front());
    return out;
  };
  const std::vector<contestant> all = {
      {"client library", [&] { return all_metrics(to_hub, "library", library); }},
      {"raw frames", [&] { return all_metrics(to_hub, "frames", frames); }},
      {"raw frames, counted unread", [&] { return all_metrics(to_hub, "unread", unread); }},
      {"direct", [&] { return all_metrics(to_direct, "direct", direct); }},
  };
  const auto values = interleave(c, all);
  auto p50 = compared("client", variant, "p50 of NOTIFY to the last", "us", all, values, 0);
  p50.wanted = at_most(1.15);
  c.out.add(std::move(p50));
  c.out.add(compared("client", variant, "p99 of NOTIFY to the last", "us", all, values, 1));
  auto rate = compared("client", variant, "deliveries of a burst of 100 B", "/s", all, values, 2);
  rate.wanted = at_least(0.8);
  c.out.add(std::move(rate));
  struct metric_of {
    std::size_t index;
    std::string what;
    const char* unit;
  };
  for (const auto& m : {metric_of{0, "p50", "us"}, metric_of{2, "deliveries of a burst", "/s"}}) {
    c.out.add(compared("client", variant, m.what + " beside frames counted unread", m.unit, all, values,
                       m.index, 0, 2));
    c.out.add(
        compared("client", variant, m.what + " beside a direct LISTEN", m.unit, all, values, m.index, 0, 3));
  }
  PQfinish(to_hub);
  PQfinish(to_direct);
}

}  // namespace

void run_client(context& c) {
  const auto hub = c.servers.make_hub(without_backlog_bounds());
  for (const std::size_t n : {1U, 8U, 32U, 128U}) measure(c, hub->socket(), n);
}

}  // namespace pgwake::bench
