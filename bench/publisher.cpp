#include "bench/publisher.hpp"

#include <stdexcept>

namespace pgwake::bench {

namespace {

constexpr double repetition_seconds = 0.7;
constexpr std::size_t least_samples = 20;

}  // namespace

publisher::publisher(const std::string& conninfo, std::string channel)
    : conn_(connect_postgres(conninfo)), channel_(std::move(channel)) {}

publisher::~publisher() { PQfinish(conn_); }

std::vector<double> publisher::samples(receivers& all, const std::function<bool(std::size_t)>& more) {
  std::vector<double> out;
  all.restart();
  while (more(out.size())) {
    const auto sent = steady::now();
    const auto sql = "NOTIFY \"" + channel_ + "\", '" + std::to_string(out.size()) + "'";
    if (PQsendQuery(conn_, sql.c_str()) == 0) throw std::runtime_error(PQerrorMessage(conn_));
    all.await_each(out.size() + 1);
    out.push_back(since(sent) * 1e6);
    // Only now: the receivers' thread must not be busy with the publisher's answer when theirs comes.
    while (PGresult* result = PQgetResult(conn_)) PQclear(result);
  }
  return out;
}

std::vector<double> publisher::run(receivers& all) {
  const auto begin = steady::now();
  const auto times = samples(
      all, [&](std::size_t taken) { return taken < least_samples || since(begin) < repetition_seconds; });
  return {percentile(times, 0.5), percentile(times, 0.99)};
}

}  // namespace pgwake::bench
