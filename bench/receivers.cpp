#include "bench/receivers.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <stdexcept>

#include "support/files.hpp"

namespace pgwake::bench {

using pgwake::test::throw_errno;

namespace {

constexpr double patience = 30;  // seconds

}  // namespace

receivers::receivers() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (epoll_ < 0) throw_errno("epoll_create1");
}

receivers::~receivers() { close(epoll_); }

void receivers::add(int fd, std::function<std::size_t()> read) {
  entries_.push_back(std::make_unique<entry>());
  entries_.back()->read = std::move(read);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = entries_.back().get();
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) throw_errno("epoll_ctl");
}

void receivers::restart() {
  for (const auto& e : entries_) e->got = 0;
  total_ = 0;
  goal_ = 0;
  reached_ = 0;
}

std::size_t receivers::turn(int timeout_ms) {
  std::array<epoll_event, 64> events{};
  const int n = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), timeout_ms);
  if (n < 0 && errno != EINTR) throw_errno("epoll_wait");
  std::size_t came = 0;
  for (int i = 0; i < n; ++i) {
    auto* e = static_cast<entry*>(events[static_cast<std::size_t>(i)].data.ptr);
    const auto got = e->read();
    if (got == 0) continue;
    if (total_ + came == 0) first_at_ = steady::now();
    if (e->got < goal_ && e->got + got >= goal_) ++reached_;
    e->got += got;
    came += got;
  }
  if (came > 0) last_at_ = steady::now();
  total_ += came;
  return came;
}

std::size_t receivers::behind(std::size_t each) {
  if (goal_ != each) {
    goal_ = each;
    reached_ = 0;
    for (const auto& e : entries_)
      if (e->got >= each) ++reached_;
  }
  return entries_.size() - reached_;
}

// Turns until `done` says so; throws once nothing has come for long.
template <typename Done>
void receivers::turn_until(Done&& done) {
  if (done()) return;
  auto last = steady::now();
  while (true) {
    const auto came = turn(1000);
    if (done()) return;
    if (came > 0)
      last = last_at_;
    else if (since(last) > patience)
      throw std::runtime_error("messages are missing: " + std::to_string(total_) + " came");
  }
}

void receivers::await_each(std::size_t each) {
  turn_until([&] { return behind(each) == 0; });
}

void receivers::await_total(std::size_t total) {
  turn_until([&] { return total_ >= total; });
}

std::size_t read_socket(int fd, wire& w) {
  static std::array<char, 256 * 1024> buffer;
  const auto n = recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (n == 0) throw std::runtime_error("a receiver was disconnected");
  if (n < 0) {
    if (errno == EAGAIN || errno == EINTR) return 0;
    throw_errno("recv");
  }
  return w.take({buffer.data(), static_cast<std::size_t>(n)});
}

PGconn* connect_postgres(const std::string& conninfo) {
  PGconn* conn = PQconnectdb(conninfo.c_str());
  if (PQstatus(conn) == CONNECTION_OK) return conn;
  const std::string why = PQerrorMessage(conn);
  PQfinish(conn);
  throw std::runtime_error("cannot connect: " + why);
}

void execute(PGconn* conn, const std::string& sql) {
  PGresult* result = PQexec(conn, sql.c_str());
  const auto status = PQresultStatus(result);
  PQclear(result);
  if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
    throw std::runtime_error(sql.substr(0, 80) + ": " + PQerrorMessage(conn));
}

direct_sessions::~direct_sessions() {
  for (auto* conn : sessions_) PQfinish(conn);
}

void direct_sessions::grow(std::size_t count) {
  while (sessions_.size() < count) sessions_.push_back(connect_postgres(conninfo_));
}

void direct_sessions::listen(std::size_t count, const std::string& channel) {
  grow(count);
  for (std::size_t i = 0; i < std::max(count, listening_); ++i) {
    execute(sessions_[i], i < count ? "UNLISTEN *; LISTEN \"" + channel + "\"" : "UNLISTEN *");
    while (PGnotify* n = PQnotifies(sessions_[i])) PQfreemem(n);
  }
  listening_ = count;
}

void direct_sessions::add_to(receivers& all, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    auto* conn = sessions_[i];
    all.add(PQsocket(conn), [conn] {
      if (PQconsumeInput(conn) == 0) throw std::runtime_error("a direct session is lost");
      std::size_t got = 0;
      while (PGnotify* n = PQnotifies(conn)) {
        PQfreemem(n);
        ++got;
      }
      return got;
    });
  }
}

}  // namespace pgwake::bench
