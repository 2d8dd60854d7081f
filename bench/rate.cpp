#include <atomic>
#include <memory>
#include <thread>

#include "bench/receivers.hpp"
#include "bench/scenario.hpp"

namespace pgwake::bench {
namespace {

const std::string channel = "bench";
constexpr double repetition_seconds = 0.8;

// Publishers that NOTIFY back to back, each on a session and thread of its own, while this thread receives.
class publishers {
 public:
  publishers(const std::string& conninfo, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) sessions_.emplace_back(connect_postgres(conninfo), &PQfinish);
  }

  // Notifications per second, all publishers together: as fast as they went, and up to the moment when every
  // receiver had every one of them.
  std::vector<double> run(receivers& all) {
    all.restart();
    std::atomic<std::size_t> sent{0};
    std::atomic<std::size_t> running{sessions_.size()};
    std::vector<std::thread> threads;
    const auto begin = steady::now();
    for (const auto& session : sessions_)
      threads.emplace_back([&, conn = session.get()] {
        const auto sql = "NOTIFY \"" + channel + "\", 'some payload of the usual size'";
        while (since(begin) < repetition_seconds) {
          execute(conn, sql);
          ++sent;
        }
        --running;
      });
    while (running > 0) all.turn(10);
    for (auto& t : threads) t.join();
    const auto rate = static_cast<double>(sent) / since(begin);
    all.await_each(sent);
    return {rate, static_cast<double>(sent) / since(begin)};
  }

 private:
  std::vector<std::unique_ptr<PGconn, decltype(&PQfinish)>> sessions_;
};

std::optional<bar> bar_for(std::size_t n, std::size_t publishing) {
  if (publishing != 1) return std::nullopt;
  if (n == 8) return at_least(1.3);
  if (n == 128) return at_least(4);
  if (n == 512) return at_least(7);
  return std::nullopt;
}

void measure(context& c, const std::string& socket, direct_sessions& direct, std::size_t n,
             std::size_t publishing) {
  const auto variant = std::to_string(n) + (n == 1 ? " receiver, " : " receivers, ") +
                       std::to_string(publishing) + (publishing == 1 ? " publisher" : " publishers");
  if (!c.wants(variant)) return;
  publishers to_hub(c.servers.hub_database(), publishing);
  publishers to_direct(c.servers.direct_database(), publishing);
  frame_workers workers(socket, n, {channel});
  receivers by_hub;
  workers.add_to(by_hub);
  direct.grow(n);
  receivers by_direct;
  direct.add_to(by_direct, n);
  const std::vector<contestant> all = {
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
  const auto values = interleave(c, all);
  auto published = compared("rate", variant, "published", "/s", all, values, 0);
  published.wanted = bar_for(n, publishing);
  c.out.add(std::move(published));
  auto received = compared("rate", variant, "published until all was received", "/s", all, values, 1);
  received.wanted = bar_for(n, publishing);
  c.out.add(std::move(received));
}

}  // namespace

void run_rate(context& c) {
  const auto hub = c.servers.make_hub();
  direct_sessions direct(c.servers.direct_database());
  for (const std::size_t publishing : {1U, 4U})
    for (const std::size_t n : {1U, 8U, 32U, 128U, 512U})
      if (!c.quick || bar_for(n, publishing)) measure(c, hub->socket(), direct, n, publishing);
}

}  // namespace pgwake::bench
