#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "bench/receivers.hpp"
#include "bench/scenario.hpp"
#include "support/frame_socket.hpp"

namespace pgwake::bench {
namespace {

const std::string channel = "bench";

void write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto n = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) throw std::runtime_error("cannot write to the server");
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

// Subscribers of a broker on plain sockets, and one that feeds it from a thread of its own.
class broker {
 public:
  template <typename Connect, typename MakeWire>
  broker(std::size_t readers, std::size_t messages, std::string subscribe, std::string publish,
         Connect&& dial, MakeWire&& make_wire)
      : messages_(messages) {
    for (std::size_t i = 0; i < readers; ++i) {
      const int fd = dial();
      fds_.push_back(fd);
      wires_.push_back(make_wire(fd));
      write_all(fd, subscribe);
    }
    feeder_ = dial();
    for (std::size_t i = 0; i < messages; ++i) script_ += publish;
    for (std::size_t i = 0; i < readers; ++i)
      all_.add(fds_[i], [fd = fds_[i], w = wires_[i].get()] { return read_socket(fd, *w); });
  }
  ~broker() {
    for (const int fd : fds_) close(fd);
    close(feeder_);
  }
  broker(const broker&) = delete;
  broker& operator=(const broker&) = delete;

  // Until every subscriber has its answer to `subscribe`.
  void settle(std::size_t answers) {
    if (answers > 0)
      all_.await_each(answers);
    else
      while (all_.turn(200) > 0) {
      }
  }

  std::vector<double> run() {
    std::thread feeding;
    std::thread answers;
    auto rate = burst(all_, messages_, [&] {
      done_ = false;
      answers = std::thread([this] { swallow(); });
      feeding = std::thread([this] { write_all(feeder_, script_); });
    });
    feeding.join();
    done_ = true;
    answers.join();
    return rate;
  }

 private:
  // What the server answers to the feeder must be read, or it stops listening to it.
  void swallow() {
    std::array<char, 64 * 1024> buffer{};
    timeval patience{0, 20'000};
    setsockopt(feeder_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    while (true) {
      const auto n = recv(feeder_, buffer.data(), buffer.size(), 0);
      if (n == 0 || (n < 0 && done_)) return;
    }
  }

  std::size_t messages_;
  std::vector<int> fds_;
  std::vector<std::unique_ptr<wire>> wires_;
  receivers all_;
  int feeder_ = -1;
  std::string script_;
  std::atomic<bool> done_{false};
};

std::unique_ptr<broker> redis(context& c, std::size_t readers, std::size_t messages, std::size_t size) {
  const std::string payload(size, 'x');
  const auto socket = c.servers.redis_socket();
  auto out = std::make_unique<broker>(
      readers, messages, "*2\r\n$9\r\nSUBSCRIBE\r\n$5\r\nbench\r\n",
      "*3\r\n$7\r\nPUBLISH\r\n$5\r\nbench\r\n$" + std::to_string(size) + "\r\n" + payload + "\r\n",
      [&] { return pgwake::test::connect_unix(socket); }, [](int) { return std::make_unique<redis_wire>(); });
  out->settle(1);
  return out;
}

std::unique_ptr<broker> nats(context& c, std::size_t readers, std::size_t messages, std::size_t size) {
  const std::string payload(size, 'x');
  const int port = c.servers.nats_port();
  const std::string hello = "CONNECT {\"verbose\":false,\"pedantic\":false,\"echo\":true}\r\n";
  auto out = std::make_unique<broker>(
      readers, messages, "SUB bench 1\r\nPING\r\n",
      "PUB bench " + std::to_string(size) + "\r\n" + payload + "\r\n",
      [&] {
        const int fd = connect_tcp(port);
        write_all(fd, hello);
        return fd;
      },
      [](int fd) { return std::make_unique<nats_wire>(fd); });
  out->settle(0);
  return out;
}

std::optional<bar> bar_for(std::size_t readers, std::size_t size) {
  return at_least(size == 100 && readers >= 64 ? 3 : 1.5);
}

// So many that a burst takes some tenths of a second, and bounded in bytes.
std::size_t messages_for(std::size_t readers, std::size_t size) {
  const std::size_t most = size <= 100 ? 200'000 : size <= 1024 ? 60'000 : 8'000;
  const std::size_t deliveries = size <= 100 ? 2'000'000 : size <= 1024 ? 800'000 : 240'000;
  return std::min(deliveries / readers, most);
}

void measure(context& c, const std::string& socket, std::size_t readers, std::size_t size) {
  const auto variant = std::to_string(size) + " B to " + std::to_string(readers);
  if (!c.wants(variant)) return;
  const auto messages = messages_for(readers, size);
  PGconn* publisher = connect_postgres(c.servers.hub_database());
  // Payloads that are equal would collapse into one within a transaction.
  const auto sql = "SELECT count(pg_notify('" + channel + "', (1000000 + i)::text || '" +
                   std::string(size - 7, 'x') + "')) FROM generate_series(1, " + std::to_string(messages) +
                   ") i";
  frame_workers workers(socket, readers, {channel});
  receivers all_workers;
  workers.add_to(all_workers);
  const auto by_redis = redis(c, readers, messages, size);
  const auto by_nats = nats(c, readers, messages, size);
  direct_sessions direct(c.servers.direct_database());
  direct.listen(1, channel);
  receivers plain;
  direct.add_to(plain, 1);
  PGconn* to_direct = connect_postgres(c.servers.direct_database());
  const auto by_postgres = [&] {
    std::thread feeding;
    auto rate = burst(plain, messages, [&] { feeding = std::thread([&] { execute(to_direct, sql); }); });
    feeding.join();
    return rate;
  };
  std::vector<contestant> all = {
      {"pgwake",
       [&] {
         std::thread feeding;
         auto rate =
             burst(all_workers, messages, [&] { feeding = std::thread([&] { execute(publisher, sql); }); });
         feeding.join();
         return rate;
       }},
      {"Redis", [&] { return by_redis->run(); }},
      {"NATS", [&] { return by_nats->run(); }},
      // What PostgreSQL and libpq give a single session: nothing behind them can be faster per message.
      {"one plain libpq session", [&] { return by_postgres(); }},
  };
  if (c.quick) all.resize(2);  // no bar speaks of the others
  const auto values = interleave(c, all);
  auto beside_redis = compared("fanout", variant, "deliveries beside Redis", "/s", all, values, 0);
  beside_redis.wanted = bar_for(readers, size);
  c.out.add(std::move(beside_redis));
  if (!c.quick) c.out.add(compared("fanout", variant, "deliveries beside NATS", "/s", all, values, 0, 0, 2));
  if (readers == 1 && !c.quick)
    c.out.add(compared("fanout", variant, "deliveries beside plain libpq", "/s", all, values, 0, 0, 3));
  PQfinish(publisher);
  PQfinish(to_direct);
}

}  // namespace

void run_fanout(context& c) {
  const auto hub = c.servers.make_hub(without_backlog_bounds());
  for (const std::size_t size : {100U, 1024U, 7900U})
    for (const std::size_t readers : {1U, 8U, 64U, 512U}) measure(c, hub->socket(), readers, size);
}

}  // namespace pgwake::bench
