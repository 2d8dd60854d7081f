#include <thread>

#include "bench/receivers.hpp"
#include "bench/scenario.hpp"

namespace pgwake::bench {
namespace {

constexpr std::size_t channels = 1'000;
constexpr double long_life = 10.5;  // seconds; a session that dies younger is replaced more slowly (U5)

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < channels; ++i) out.push_back("recovery" + std::to_string(i));
  return out;
}

// A hub with one worker that holds all channels, and the name of its session.
struct rig {
  std::string application;
  std::unique_ptr<test::hub_daemon> hub;
  std::unique_ptr<frame_workers> worker;
  receivers all;
};

std::unique_ptr<rig> make_rig(const context& c, std::size_t number) {
  auto out = std::make_unique<rig>();
  out->application = "bench-recovery-" + std::to_string(number);
  out->hub = c.servers.make_hub({"--application-name", out->application});
  out->worker = std::make_unique<frame_workers>(out->hub->socket(), 1, names());
  out->worker->add_to(out->all);
  return out;
}

}  // namespace

// From pg_terminate_backend to the last of 1,000 gaps, which say that LISTEN is active again.
void run_recovery(context& c) {
  std::vector<std::unique_ptr<rig>> rigs;
  for (std::size_t i = 0; i <= c.repetitions; ++i) rigs.push_back(make_rig(c, i));
  std::this_thread::sleep_for(std::chrono::duration<double>(long_life));
  auto& postgres = c.servers.postgres();
  std::size_t next = 0;
  std::string sql;
  for (const auto& name : names()) sql += "LISTEN \"" + name + "\";";
  const std::vector<contestant> all = {
      {"pgwake",
       [&] {
         auto& r = *rigs[next++];
         const auto pid = postgres.backend_pids(r.application).at(0);
         r.all.restart();
         const auto begin = steady::now();
         postgres.terminate(pid);
         r.all.await_total(channels);
         return std::vector<double>{since(begin) * 1e3};
       }},
      {"connect and one batched LISTEN",
       [&] {
         const auto begin = steady::now();
         PGconn* session = connect_postgres(c.servers.direct_database());
         execute(session, sql);
         const auto took = since(begin);
         PQfinish(session);
         return std::vector<double>{took * 1e3};
       }},
  };
  const auto values = interleave(c, all);
  auto out = compared("recovery", "1,000 channels active again", "wall time", "ms", all, values, 0);
  out.wanted = at_most(5);
  c.out.add(std::move(out));
}

}  // namespace pgwake::bench
