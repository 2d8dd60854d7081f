#include "attack/liar.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "support/files.hpp"

namespace pgwake::attack {
namespace {

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

}  // namespace

std::string int16(int value) { return {static_cast<char>(value >> 8), static_cast<char>(value)}; }

std::string int32(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

std::string message(char type, std::string_view body) {
  return type + int32(static_cast<std::uint32_t>(body.size() + 4)) + std::string(body);
}

liar::liar(int server_port, std::string trigger, std::string first, std::string again)
    : server_port_(server_port),
      port_(test::random_port()),
      trigger_(std::move(trigger)),
      first_(std::move(first)),
      again_(std::move(again)),
      listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int on = 1;
  setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const auto address = loopback(port_);
  if (bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener_, 64) != 0)
    test::throw_errno("the false server");
  acceptor_ = std::thread([this] { accept_all(); });
}

liar::~liar() {
  stopping_ = true;
  acceptor_.join();
  for (auto& link : links_) link.join();
  close(listener_);
}

std::string liar::conninfo(std::string_view database) const {
  return "host=127.0.0.1 port=" + std::to_string(port_) + " user=postgres dbname=" + std::string(database);
}

void liar::accept_all() {
  while (!stopping_) {
    pollfd waiting{listener_, POLLIN, 0};
    if (poll(&waiting, 1, 20) <= 0) continue;
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    const timeval patience{0, 50'000};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    links_.emplace_back([this, fd] {
      relay(fd);
      close(fd);
    });
  }
}

void liar::relay(int client) {
  const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto address = loopback(server_port_);
  bool lying = false;
  if (connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    while (!stopping_ && !lying) {
      pollfd waiting[2] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
      if (poll(waiting, 2, 20) <= 0) continue;
      char buffer[65'536];
      bool ended = false;
      for (int side = 0; side < 2 && !lying && !ended; ++side) {
        if (waiting[side].revents == 0) continue;
        const auto got = recv(waiting[side].fd, buffer, sizeof buffer, 0);
        if (got <= 0) {
          ended = true;
          continue;
        }
        const std::string_view bytes(buffer, static_cast<std::size_t>(got));
        lying = side == 0 && bytes.find(trigger_) != std::string_view::npos;
        if (!lying) ended = !send_all(waiting[1 - side].fd, bytes);
      }
      if (ended) break;
    }
  }
  close(server);
  if (lying) lie(client);
}

void liar::lie(int client) {
  ++lies_;
  std::string endless;
  while (!again_.empty() && endless.size() < 65'536) endless += again_;
  std::string_view unsent = first_;
  while (!stopping_) {
    // What the client says meanwhile is read and not answered.
    char buffer[4'096];
    if (recv(client, buffer, sizeof buffer, MSG_DONTWAIT) == 0) return;
    if (unsent.empty()) unsent = endless;
    if (unsent.empty()) {
      pollfd waiting{client, POLLIN, 0};
      poll(&waiting, 1, 20);
      continue;
    }
    const auto sent = send(client, unsent.data(), unsent.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return;
    if (sent > 0) unsent.remove_prefix(static_cast<std::size_t>(sent));
  }
}

}  // namespace pgwake::attack
