#include "attack/horde.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <utility>

#include "support/frame_socket.hpp"

namespace pgwake::attack {
namespace {

int connect_or_nothing(const std::string& socket) {
  try {
    return test::connect_unix(socket);
  } catch (const std::exception&) {
    return -1;
  }
}

}  // namespace

horde::horde(const std::string& socket, std::size_t count, bool hello) : socket_(socket), hello_(hello) {
  for (std::size_t i = 0; i < count; ++i) {
    const int fd = connect_or_nothing(socket);
    if (fd < 0) break;
    members_.push_back({fd, {}});
    if (hello) send(i, R"({"t":"hello","v":1,"name":"attacker"})");
  }
}

horde::~horde() {
  for (const auto& m : members_)
    if (m.fd >= 0) ::close(m.fd);
}

std::size_t horde::alive() const {
  return static_cast<std::size_t>(
      std::count_if(members_.begin(), members_.end(), [](const member& m) { return m.fd >= 0; }));
}

bool horde::flush(member& m) {
  while (m.fd >= 0 && !m.unsent.empty()) {
    const auto sent = ::send(m.fd, m.unsent.data(), m.unsent.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      m.unsent.erase(0, static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EINTR) {
      return false;
    } else {
      ::close(std::exchange(m.fd, -1));
    }
  }
  return m.fd >= 0;
}

bool horde::send(std::size_t index, std::string_view json) { return send_raw(index, test::frame_of(json)); }

bool horde::send_raw(std::size_t index, std::string_view bytes) {
  auto& m = members_[index];
  if (!flush(m)) return false;
  m.unsent.assign(bytes);
  return flush(m);
}

void horde::read(std::size_t index) {
  auto& m = members_[index];
  char buffer[65536];
  while (m.fd >= 0) {
    const auto got = recv(m.fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got > 0) continue;
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    ::close(std::exchange(m.fd, -1));
  }
}

void horde::read_all() {
  for (std::size_t i = 0; i < members_.size(); ++i) read(i);
}

void horde::renew(std::size_t index) {
  auto& m = members_[index];
  if (m.fd >= 0) ::close(m.fd);
  m.unsent.clear();
  m.fd = connect_or_nothing(socket_);
  if (hello_) send(index, R"({"t":"hello","v":1,"name":"attacker"})");
}

std::string sub_of(std::string_view name) { return R"({"t":"sub","q":)" + test::json_string(name) + "}"; }
std::string unsub_of(std::string_view name) { return R"({"t":"unsub","q":)" + test::json_string(name) + "}"; }

}  // namespace pgwake::attack
