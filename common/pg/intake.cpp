#include "common/pg/intake.hpp"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <optional>

namespace pgwake::pg {
namespace {

std::uint64_t waiting(int socket) {
  int bytes = 0;
  return ioctl(socket, FIONREAD, &bytes) == 0 && bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
}

std::optional<std::uint64_t> received(int socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  return info.tcpi_bytes_received;
}

}  // namespace

intake::intake(int socket, steady_time now) : socket_(socket), account_(now) {
  int protocol = 0;
  socklen_t size = sizeof protocol;
  tcp_ = getsockopt(socket, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 && protocol == IPPROTO_TCP;
  if (!tcp_) return;
  if (const auto total = received(socket)) account_.begin(*total, waiting(socket));
}

void intake::about_to_read() {
  if (!tcp_ && socket_ >= 0) account_.about_to_read(waiting(socket_));
}

bool intake::fits(steady_time now) const {
  if (!tcp_) return account_.fits(now);
  const auto total = received(socket_);
  return !total || account_.fits(*total, waiting(socket_), now);
}

}  // namespace pgwake::pg
