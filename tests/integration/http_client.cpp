#include "integration/http_client.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "support/files.hpp"

namespace pgwake::test {
namespace {

int connect_to(const http_address& where) {
  sockaddr_storage storage{};
  socklen_t size = 0;
  if (where.path.empty()) {
    auto& to = reinterpret_cast<sockaddr_in&>(storage);
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<std::uint16_t>(where.port));
    size = sizeof to;
  } else {
    auto& to = reinterpret_cast<sockaddr_un&>(storage);
    to.sun_family = AF_UNIX;
    std::memcpy(to.sun_path, where.path.data(), where.path.size());
    size = sizeof to;
  }
  const int fd = socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) throw_errno("socket");
  if (connect(fd, reinterpret_cast<sockaddr*>(&storage), size) != 0) {
    const int error = errno;
    close(fd);
    errno = error;
    throw_errno("connect to " + (where.path.empty() ? std::to_string(where.port) : where.path));
  }
  return fd;
}

}  // namespace

http_connection::http_connection(const http_address& where) : fd_(connect_to(where)) {}
http_connection::http_connection(http_connection&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
http_connection::~http_connection() {
  if (fd_ >= 0) close(fd_);
}

void http_connection::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return;  // closed by the other side, which may have answered before
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

bool http_connection::more(std::string& into, clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - clock::now());
  pollfd ready{fd_, POLLIN, 0};
  if (left.count() <= 0 || poll(&ready, 1, static_cast<int>(left.count())) <= 0)
    throw std::runtime_error("the HTTP connection does not end; so far: " + into);
  char buffer[16384];
  const auto n = recv(fd_, buffer, sizeof buffer, 0);
  if (n > 0) into.append(buffer, static_cast<std::size_t>(n));
  return n > 0;
}

http_answer http_connection::receive(milliseconds patience) {
  const auto deadline = deadline_in(patience);
  std::string all;
  while (more(all, deadline)) {
  }
  http_answer answer;
  const auto end = all.find("\r\n\r\n");
  if (end == std::string::npos) return answer;
  answer.head = all.substr(0, end + 2);
  answer.body = all.substr(end + 4);
  answer.status = std::stoi(all.substr(all.find(' ') + 1, 3));
  return answer;
}

bool http_connection::closed(milliseconds patience) {
  const auto deadline = clock::now() + patience;
  std::string ignored;
  try {
    while (more(ignored, deadline)) {
    }
    return true;
  } catch (const std::runtime_error&) {
    return false;
  }
}

http_answer http_ask(const http_address& where, std::string_view target, std::string_view headers,
                     std::string_view method) {
  http_connection connection(where);
  std::string request = std::string(method) + " " + std::string(target) + " HTTP/1.1\r\n";
  if (headers.find("Host:") == std::string_view::npos) request += "Host: localhost\r\n";
  connection.send(request + std::string(headers) + "\r\n");
  return connection.receive();
}

double metric(const http_address& where, std::string_view series) {
  const auto text = "\n" + http_ask(where, "/metrics").body;
  const auto line = "\n" + std::string(series) + " ";
  const auto at = text.find(line);
  if (at == std::string::npos) throw std::runtime_error("no series " + std::string(series) + " in:\n" + text);
  return std::stod(text.substr(at + line.size()));
}

}  // namespace pgwake::test
