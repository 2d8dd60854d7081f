#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "bench/process_memory.hpp"
#include "bench/publisher.hpp"
#include "bench/receivers.hpp"
#include "bench/scenario.hpp"

// libpq through the front door beside libpq at the server, and beside workers that speak the hub's own frames.
namespace pgwake::bench {
namespace {

const std::string channel = "bench";

std::unique_ptr<pgwake::test::hub_daemon> make_hub(context& c) {
  auto arguments = without_backlog_bounds();
  arguments.insert(arguments.end(),
                   {"--front-door", "--max-workers", "2500", "--max-workers-per-user", "2500"});
  return c.servers.make_hub(arguments);
}

std::string at_door(const pgwake::test::hub_daemon& hub) {
  return "host=" + std::filesystem::path(hub.socket()).parent_path().string() + " port=5432 dbname=hub";
}

// libpq sessions that listen, and their reader.
struct listeners {
  listeners(const std::string& conninfo, std::size_t count) : sessions(conninfo) {
    sessions.listen(count, channel);
    sessions.add_to(all, count);
  }
  direct_sessions sessions;
  receivers all;
};

std::optional<bar> latency_bar(std::size_t n) { return at_most(n == 1 ? 1.15 : 1.0); }

void measure_latency(context& c, std::size_t n) {
  const auto variant = std::to_string(n) + (n == 1 ? " driver" : " drivers");
  if (!c.wants(variant)) return;
  const auto hub = make_hub(c);
  listeners by_hub(at_door(*hub), n);
  listeners by_server(c.servers.direct_database(), n);
  publisher to_hub(c.servers.hub_database(), channel);
  publisher to_direct(c.servers.direct_database(), channel);
  std::vector<contestant> all = {
      {"front door", [&] { return to_hub.run(by_hub.all); }},
      {"direct", [&] { return to_direct.run(by_server.all); }},
  };
  const auto values = interleave(c, all);
  auto p50 = compared("door", variant, "p50", "us", all, values, 0);
  p50.wanted = latency_bar(n);
  c.out.add(std::move(p50));
  c.out.add(compared("door", variant, "p99", "us", all, values, 1));
}

void measure_burst(context& c, std::size_t n) {
  const auto variant = "a burst to " + std::to_string(n);
  if (!c.wants(variant)) return;
  const auto hub = make_hub(c);
  const std::size_t messages = 1'000'000 / n / 4;
  const auto sql = "SELECT count(pg_notify('" + channel +
                   "', (1000000 + i)::text || repeat('x', 93))) FROM generate_series(1, " +
                   std::to_string(messages) + ") i";
  PGconn* publishing = connect_postgres(c.servers.hub_database());
  const auto rate = [&](receivers& all) {
    std::thread feeding;
    auto out = burst(all, messages, [&] { feeding = std::thread([&] { execute(publishing, sql); }); });
    feeding.join();
    return out;
  };
  // One kind at a time, or each would wait for the other's reading.
  std::vector<contestant> all = {{"front door",
                                  [&] {
                                    listeners by_door(at_door(*hub), n);
                                    return rate(by_door.all);
                                  }},
                                 {"frames", [&] {
                                    frame_workers workers(hub->socket(), n, {channel});
                                    receivers by_frames;
                                    workers.add_to(by_frames);
                                    return rate(by_frames);
                                  }}};
  const auto values = interleave(c, all);
  auto out = compared("door", variant, "deliveries", "/s", all, values, 0);
  out.wanted = at_least(0.8);
  c.out.add(std::move(out));
  PQfinish(publishing);
}

void measure_memory(context& c) {
  constexpr std::size_t count = 1000;
  if (!c.wants("a worker")) return;
  std::vector<double> doors;
  std::vector<double> frames;
  for (std::size_t i = 0; i < c.repetitions; ++i) {
    {
      const auto hub = make_hub(c);
      const auto before = resident_kib(hub->child().pid());
      const listeners drivers(at_door(*hub), count);
      doors.push_back((resident_kib(hub->child().pid()) - before) / count);
    }
    const auto hub = make_hub(c);
    const auto before = resident_kib(hub->child().pid());
    const frame_workers workers(hub->socket(), count, {channel});
    frames.push_back((resident_kib(hub->child().pid()) - before) / count);
  }
  // Beside a worker that speaks frames, and what the contract adds to it: twice 2.6 KiB.
  const double allowed = median(frames) + 2 * 2.6;
  cell out{"door", "a worker", "resident", "KiB", {"front door", doors}, series{"frames", frames}, {}};
  out.wanted = at_most(allowed / median(frames));
  c.out.add(std::move(out));
}

// One driver of a deploy: connects and listens, without waiting for anything.
class newcomer {
 public:
  explicit newcomer(const std::string& conninfo) : conn_(PQconnectStart(conninfo.c_str())) {}
  ~newcomer() { PQfinish(conn_); }
  newcomer(const newcomer&) = delete;
  newcomer& operator=(const newcomer&) = delete;

  bool served() const { return served_; }
  pollfd wish() const { return {PQsocket(conn_), reading_ ? short{POLLIN} : short{POLLOUT}, 0}; }
  void go_on() {
    if (!connected_) {
      const auto how = PQconnectPoll(conn_);
      if (how == PGRES_POLLING_FAILED) throw std::runtime_error(PQerrorMessage(conn_));
      reading_ = how == PGRES_POLLING_READING;
      if (how != PGRES_POLLING_OK) return;
      connected_ = reading_ = true;
      if (PQsendQuery(conn_, ("LISTEN \"" + channel + "\"").c_str()) == 0)
        throw std::runtime_error(PQerrorMessage(conn_));
      return;
    }
    if (PQconsumeInput(conn_) == 0) throw std::runtime_error(PQerrorMessage(conn_));
    while (!PQisBusy(conn_)) {
      PGresult* result = PQgetResult(conn_);
      if (result == nullptr) {
        served_ = true;
        return;
      }
      PQclear(result);
    }
  }

 private:
  PGconn* conn_;
  bool reading_ = false;
  bool connected_ = false;
  bool served_ = false;
};

// Seconds until `count` drivers that connect at one time all listen.
double deploy(const std::string& conninfo, std::size_t count) {
  const auto begin = steady::now();
  std::vector<std::unique_ptr<newcomer>> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(std::make_unique<newcomer>(conninfo));
  std::vector<newcomer*> waiting;
  for (const auto& one : all) waiting.push_back(one.get());
  while (!waiting.empty()) {
    std::vector<pollfd> wishes;
    for (const auto* one : waiting) wishes.push_back(one->wish());
    if (poll(wishes.data(), wishes.size(), 30'000) <= 0) throw std::runtime_error("drivers are not served");
    for (std::size_t i = 0; i < waiting.size(); ++i)
      if (wishes[i].revents != 0) waiting[i]->go_on();
    std::erase_if(waiting, [](const newcomer* one) { return one->served(); });
  }
  return since(begin);
}

void measure_deploy(context& c) {
  constexpr std::size_t count = 1000;
  if (!c.wants("1,000 connect at once")) return;
  const auto hub = make_hub(c);
  frame_workers workers(hub->socket(), 8, {"others"});
  receivers others;
  workers.add_to(others);
  publisher to_others(c.servers.hub_database(), "others");
  std::vector<double> seconds;
  std::vector<contestant> all = {
      {"meanwhile",
       [&] {
         std::atomic<bool> done{false};
         double took = 0;
         std::thread connecting([&] {
           took = deploy(at_door(*hub), count);
           done = true;
         });
         const auto times = to_others.samples(others, [&](std::size_t) { return !done; });
         connecting.join();
         seconds.push_back(took);
         return std::vector<double>{percentile(times, 0.99)};
       }},
      {"before", [&] { return std::vector<double>{to_others.run(others)[1]}; }},
  };
  const auto values = interleave(c, all);
  auto wakes = compared("door", "1,000 connect at once", "others' p99", "us", all, values, 0);
  wakes.wanted = at_most(5);
  c.out.add(std::move(wakes));
  c.out.add(
      {"door", "1,000 connect at once", "all listen after", "s", {"front door", seconds}, {}, at_most(2)});
}

}  // namespace

void run_door(context& c) {
  for (const std::size_t n : {1U, 8U, 64U}) measure_latency(c, n);
  for (const std::size_t n : {1U, 8U, 64U}) measure_burst(c, n);
  measure_memory(c);
  measure_deploy(c);
}

}  // namespace pgwake::bench
