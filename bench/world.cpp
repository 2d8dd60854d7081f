#include "bench/world.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>

#include "support/eventually.hpp"
#include "support/frame_socket.hpp"

namespace pgwake::bench {

using namespace std::chrono_literals;
using namespace pgwake::test;

namespace {

cluster_options postgres_settings() {
  return {.settings = {{"max_connections", "1200"}, {"shared_buffers", "128MB"}}};
}

bool accepts(int port) {
  try {
    close(connect_tcp(port));
    return true;
  } catch (const std::runtime_error&) {
    return false;
  }
}

}  // namespace

int connect_tcp(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) throw_errno("socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    close(fd);
    throw_errno("connect to port " + std::to_string(port));
  }
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

std::vector<std::string> without_backlog_bounds() {
  return {"--outbox-max-bytes",       "4GiB", "--outbox-max-frames", "10000000",
          "--outbox-total-max-bytes", "16GiB"};
}

world::world() : postgres_(postgres_settings()) {
  postgres_.create_database("hub");
  postgres_.create_database("direct");
  postgres_.create_database("relay");
}

std::unique_ptr<hub_daemon> world::make_hub(std::vector<std::string> arguments) const {
  hub_options options;
  options.database = hub_database();
  options.arguments = std::move(arguments);
  return std::make_unique<hub_daemon>(std::move(options));
}

std::string world::redis_socket() {
  const auto path = home_ / "redis.sock";
  if (redis_) return path;
  redis_ = std::make_unique<process>(
      process_options{.argv = {"redis-server", "--port", "0", "--unixsocket", path, "--save", "",
                               "--appendonly", "no", "--daemonize", "no", "--maxclients", "2000",
                               "--client-output-buffer-limit", "pubsub 0 0 0", "--dir", home_.path()}});
  if (!eventually(10s, [&] { return can_connect(path); }))
    throw std::runtime_error("redis-server does not start:\n" + redis_->out() + redis_->err());
  return path;
}

int world::nats_port() {
  if (nats_) return nats_port_;
  nats_port_ = random_port();
  const auto config = home_ / "nats.conf";
  write_file(config, "listen: 127.0.0.1:" + std::to_string(nats_port_) +
                         "\nmax_pending: 4294967296\nwrite_deadline: \"60s\"\n");
  nats_ = std::make_unique<process>(process_options{.argv = {"nats-server", "-c", config}});
  if (!eventually(10s, [&] { return accepts(nats_port_); }))
    throw std::runtime_error("nats-server does not start:\n" + nats_->out() + nats_->err());
  return nats_port_;
}

}  // namespace pgwake::bench
