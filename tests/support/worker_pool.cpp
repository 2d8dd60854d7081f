#include "support/worker_pool.hpp"

#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "support/files.hpp"

namespace pgwake::test {
namespace {

// An ordinary user begins with 1,024.
void allow_descriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) throw_errno("getrlimit");
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) throw_errno("setrlimit");
}

}  // namespace

worker_pool::worker_pool(const std::string& socket_path, std::size_t count, bool hello)
    : members_(count), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  allow_descriptors();
  if (epoll_ < 0) throw_errno("epoll_create1");
  for (std::size_t i = 0; i < count; ++i) {
    members_[i].fd = connect_unix(socket_path);
    epoll_event wanted{};
    wanted.events = EPOLLIN;
    wanted.data.u64 = i;
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, members_[i].fd, &wanted) != 0) throw_errno("epoll_ctl");
    if (hello) send(i, R"({"t":"hello","v":1,"name":"pool )" + std::to_string(i) + "\"}");
  }
}

worker_pool::~worker_pool() {
  for (std::size_t i = 0; i < size(); ++i) close(i);
  ::close(epoll_);
}

void worker_pool::close(std::size_t index) {
  if (members_[index].fd >= 0) ::close(std::exchange(members_[index].fd, -1));
}

void worker_pool::send(std::size_t index, std::string_view json) {
  const std::string bytes = frame_of(json);
  if (::send(members_[index].fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(bytes.size()))
    throw_errno("send to the hub");
}

void worker_pool::sub(std::size_t index, std::string_view q) {
  send(index, R"({"t":"sub","q":)" + json_string(q) + "}");
}

void worker_pool::reset_counts() {
  for (auto& one : members_) one.acks = one.nacks = one.wakes = one.gaps = one.pongs = 0;
}

bool worker_pool::run_until(const std::function<bool()>& done, milliseconds patience) {
  const auto deadline = deadline_in(patience);
  while (!done()) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - clock::now()).count();
    if (left <= 0) return false;
    epoll_event ready[256];
    const int count = epoll_wait(epoll_, ready, 256, static_cast<int>(std::min<std::int64_t>(left, 50)));
    for (int i = 0; i < count; ++i) receive(ready[i].data.u64);
  }
  return true;
}

void worker_pool::receive(std::size_t index) {
  auto& one = members_[index];
  char buffer[65536];
  const ssize_t got = recv(one.fd, buffer, sizeof buffer, MSG_DONTWAIT);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
    one.ended = true;
    close(index);  // which takes it out of the epoll set, too
    return;
  }
  if (got < 0) return;
  one.in.feed({buffer, static_cast<std::size_t>(got)});
  while (auto text = one.in.next()) {
    const frame received(std::move(*text));
    count(one, received);
    if (on_frame) on_frame(index, received);
  }
}

void worker_pool::count(member& one, const frame& received) {
  const std::string t = received.t();
  if (t == "ack") ++one.acks;
  if (t == "nack") ++one.nacks;
  if (t == "pong") ++one.pongs;
  if (t == "wake") {
    ++one.wakes;
    one.gaps += received.has("gap");
  }
  if (t == "status") one.healthy = received.healthy();
}

bool worker_pool::every(const std::function<bool(const member&)>& fulfils) const {
  return std::all_of(members_.begin(), members_.end(), fulfils);
}

std::size_t worker_pool::sum(std::size_t member::*count) const {
  std::size_t total = 0;
  for (const auto& one : members_) total += one.*count;
  return total;
}

}  // namespace pgwake::test
