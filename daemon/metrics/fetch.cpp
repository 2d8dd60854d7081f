#include "daemon/metrics/fetch.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "daemon/io/socket_file.hpp"

namespace pgwaked {
namespace {

using steady = std::chrono::steady_clock;

constexpr std::size_t most_bytes = 16U << 20U;

struct destination {
  sockaddr_storage address{};
  socklen_t size = 0;
};

// This host's own end of the address: who listens everywhere is asked over the loopback.
destination destination_of(const metrics_address& where) {
  destination out;
  if (where.kind == metrics_address::family::unix_socket) {
    auto& to = reinterpret_cast<sockaddr_un&>(out.address);
    to.sun_family = AF_UNIX;
    std::memcpy(to.sun_path, where.path.data(), std::min(where.path.size(), sizeof to.sun_path - 1));
    out.size = sizeof to;
    return out;
  }
  auto& four = reinterpret_cast<sockaddr_in&>(out.address);
  if (inet_pton(AF_INET, where.host.c_str(), &four.sin_addr) == 1) {
    if (four.sin_addr.s_addr == INADDR_ANY) four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    four.sin_family = AF_INET;
    four.sin_port = htons(where.port);
    out.size = sizeof four;
    return out;
  }
  auto& six = reinterpret_cast<sockaddr_in6&>(out.address);
  if (inet_pton(AF_INET6, where.host.c_str(), &six.sin6_addr) != 1) return out;
  if (std::memcmp(&six.sin6_addr, &in6addr_any, sizeof in6addr_any) == 0) six.sin6_addr = in6addr_loopback;
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(where.port);
  out.size = sizeof six;
  return out;
}

// Empty: ready for `events`.
std::string wait(int fd, short events, steady::time_point until) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - steady::now()).count();
    if (left <= 0) return "no answer in time";
    pollfd p{fd, events, 0};
    const int n = poll(&p, 1, static_cast<int>(left));
    if (n > 0) return {};
    if (n < 0 && errno != EINTR) return std::strerror(errno);
  }
}

// Empty: connected.
std::string connect_to(int fd, const destination& to, steady::time_point until) {
  if (connect(fd, reinterpret_cast<const sockaddr*>(&to.address), to.size) == 0) return {};
  if (errno != EINPROGRESS) return std::strerror(errno);
  if (auto why = wait(fd, POLLOUT, until); !why.empty()) return why;
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? "" : std::strerror(error);
}

// Until the hub closes, as it does after each answer. Empty: `into` holds it.
std::string read_all(int fd, std::string& into, steady::time_point until) {
  for (std::array<char, 64 * 1024> part{}; into.size() <= most_bytes;) {
    const auto n = recv(fd, part.data(), part.size(), 0);
    if (n == 0) return {};
    if (n > 0) {
      into.append(part.data(), static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      if (auto why = wait(fd, POLLIN, until); !why.empty()) return why;
    } else if (errno != EINTR) {
      return std::strerror(errno);
    }
  }
  return "it is larger than 16 MiB";
}

}  // namespace

boost::system::result<std::string, no_metrics> fetch_metrics(const metrics_address& where,
                                                             const std::string& token,
                                                             std::chrono::milliseconds patience) {
  using result = boost::system::result<std::string, no_metrics>;
  if (where.kind == metrics_address::family::off) return no_metrics{"metrics_listen is off"};
  const auto until = steady::now() + patience;
  const auto to = destination_of(where);
  const unique_fd fd(socket(to.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return no_metrics{std::strerror(errno)};
  if (auto why = connect_to(fd.get(), to, until); !why.empty()) return no_metrics{std::move(why)};
  std::string request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n";
  if (!token.empty()) request += "Authorization: Bearer " + token + "\r\n";
  request += "\r\n";  // small enough for any socket's buffer
  if (send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0)
    return no_metrics{std::strerror(errno)};
  std::string answer;
  if (auto why = read_all(fd.get(), answer, until); !why.empty()) return no_metrics{std::move(why)};
  const auto line = answer.substr(0, answer.find("\r\n"));
  const auto head = answer.find("\r\n\r\n");
  if (!line.starts_with("HTTP/1.1 200") || head == answer.npos)
    return no_metrics{"the answer is " + (line.empty() ? std::string("empty") : line.substr(0, 100))};
  return result(boost::system::in_place_value, answer.substr(head + 4));
}

}  // namespace pgwaked
