#include "support/raw_worker.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <utility>

#include "support/files.hpp"

namespace pgwake::test {

raw_worker::raw_worker(const std::string& socket_path) : fd_(connect_unix(socket_path)) {}
raw_worker::raw_worker(raw_worker&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      ended_(other.ended_),
      in_(std::move(other.in_)),
      last_ping_(other.last_ping_) {}
raw_worker& raw_worker::operator=(raw_worker&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(ended_, other.ended_);
  std::swap(in_, other.in_);
  std::swap(last_ping_, other.last_ping_);
  return *this;
}
raw_worker::~raw_worker() { close(); }

void raw_worker::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

void raw_worker::shut_writing() { ::shutdown(fd_, SHUT_WR); }

void raw_worker::send_raw(std::string_view bytes) {
  const auto deadline = deadline_in(10s);
  while (!bytes.empty()) {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) throw_errno("send to the hub");
    if (clock::now() > deadline) throw std::runtime_error("the hub has not read for 10 s");
    pollfd wait{fd_, POLLOUT, 0};
    poll(&wait, 1, 100);
  }
}

frame raw_worker::hello(std::string_view name, std::string_view database) {
  std::string text = R"({"t":"hello","v":1)";
  if (!name.empty()) text += ",\"name\":" + json_string(name);
  if (!database.empty()) text += ",\"db\":" + json_string(database);
  send_json(text + "}");
  return expect("welcome");
}

void raw_worker::sub(std::string_view q) { send_json(R"({"t":"sub","q":)" + json_string(q) + "}"); }
void raw_worker::unsub(std::string_view q) { send_json(R"({"t":"unsub","q":)" + json_string(q) + "}"); }
void raw_worker::ping(std::int64_t id) { send_json(R"({"t":"ping","id":)" + std::to_string(id) + "}"); }

bool raw_worker::receive(clock::time_point deadline) {
  if (ended_) return false;
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - clock::now()).count();
  pollfd wait{fd_, POLLIN, 0};
  if (poll(&wait, 1, static_cast<int>(std::max<std::int64_t>(left, 0))) <= 0) return clock::now() < deadline;
  char buffer[65536];
  const ssize_t got = recv(fd_, buffer, sizeof buffer, MSG_DONTWAIT);
  if (got > 0) in_.feed({buffer, static_cast<std::size_t>(got)});
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) ended_ = true;
  return true;
}

std::optional<frame> raw_worker::next(milliseconds patience) {
  const auto deadline = clock::now() + patience;
  for (;;) {
    if (auto text = in_.next()) return frame(std::move(*text));
    if (!receive(deadline)) return std::nullopt;
  }
}

frame raw_worker::expect(std::string_view t, milliseconds patience) {
  const auto deadline = deadline_in(patience);
  for (;;) {
    auto found = next(std::chrono::duration_cast<milliseconds>(deadline - clock::now()));
    if (!found)
      throw std::runtime_error(
          "expected " + std::string(t) +
          (ended_ ? ", the hub closed" : ", nothing in " + std::to_string(patience.count()) + " ms"));
    if (found->t() == t) return std::move(*found);
    if (found->t() != "status")
      throw std::runtime_error("expected " + std::string(t) + ", got " + found->text);
  }
}

frame raw_worker::expect(std::string_view t, std::string_view q, milliseconds patience) {
  auto found = expect(t, patience);
  if (found.q() != q)
    throw std::runtime_error("expected " + std::string(t) + " of " + std::string(q) + ", got " + found.text);
  return found;
}

frame raw_worker::expect_wake(std::string_view q, const std::optional<std::string>& payload,
                              milliseconds patience) {
  auto found = expect("wake", q, patience);
  if (found.p() != payload)
    throw std::runtime_error("expected payload " + payload.value_or("null") + ", got " + found.text);
  return found;
}

void raw_worker::subscribe(std::string_view q, milliseconds patience) {
  sub(q);
  expect("ack", q, patience);
}

void raw_worker::await_health(bool healthy, milliseconds patience) {
  const auto deadline = deadline_in(patience);
  while (auto found = next(std::chrono::duration_cast<milliseconds>(deadline - clock::now())))
    if (found->t() == "status" && found->healthy() == healthy) return;
  throw std::runtime_error(healthy ? "the hub does not become healthy" : "the hub does not become unhealthy");
}

std::vector<frame> raw_worker::drain(milliseconds duration) {
  std::vector<frame> frames;
  const auto deadline = clock::now() + duration;
  while (auto found = next(
             std::max(milliseconds(0), std::chrono::duration_cast<milliseconds>(deadline - clock::now()))))
    if (found->t() != "status") frames.push_back(std::move(*found));
  return frames;
}

std::vector<frame> raw_worker::until_pong(milliseconds patience) {
  const auto deadline = deadline_in(patience);
  const auto id = ++last_ping_;
  ping(id);
  std::vector<frame> frames;
  while (auto found = next(std::chrono::duration_cast<milliseconds>(deadline - clock::now()))) {
    if (found->t() == "pong" && found->id() == id) return frames;
    if (found->t() != "status") frames.push_back(std::move(*found));
  }
  throw std::runtime_error(ended_ ? "expected pong, the hub closed" : "expected pong, it did not come");
}

bool raw_worker::closed(milliseconds patience) {
  const auto deadline = deadline_in(patience);
  while (!ended_ && receive(deadline))
    while (in_.next()) {
    }
  return ended_;
}

}  // namespace pgwake::test
