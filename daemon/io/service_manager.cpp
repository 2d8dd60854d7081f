#include "daemon/io/service_manager.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <utility>

namespace pgwaked {
namespace {

constexpr int first_passed = 3;  // SD_LISTEN_FDS_START

std::optional<long long> number(const char* text) {
  if (text == nullptr) return std::nullopt;
  long long n = 0;
  const auto* end = text + std::strlen(text);
  const auto [stopped, error] = std::from_chars(text, end, n);
  if (error != std::errc{} || stopped != end || n < 0) return std::nullopt;
  return n;
}

int option_of(int fd, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  return getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
}

// What the descriptor is instead of a listening Unix stream socket; empty: it is one.
std::string fault_of(int fd) {
  struct stat s {};
  if (fstat(fd, &s) != 0) return "a closed descriptor";
  if (!S_ISSOCK(s.st_mode)) return S_ISFIFO(s.st_mode) ? "a FIFO" : "no socket";
  const int domain = option_of(fd, SO_DOMAIN);
  if (domain != AF_UNIX)
    return domain == AF_INET || domain == AF_INET6 ? "a TCP or UDP socket" : "no Unix socket";
  if (option_of(fd, SO_TYPE) != SOCK_STREAM) return "a datagram or sequential-packet socket";
  if (option_of(fd, SO_ACCEPTCONN) != 1) return "a connected socket (is Accept=yes set?)";
  return {};
}

// Empty: unnamed or abstract.
std::string path_of(int fd) {
  sockaddr_un address{};
  socklen_t size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  const auto length = size - offsetof(sockaddr_un, sun_path);
  return {address.sun_path, strnlen(address.sun_path, length)};
}

bool same_file(const std::string& a, const std::string& b) {
  struct stat of_a {};
  struct stat of_b {};
  if (a == b) return true;
  return stat(a.c_str(), &of_a) == 0 && stat(b.c_str(), &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
         of_a.st_ino == of_b.st_ino;
}

}  // namespace

service_manager::service_manager() : service_manager([](const char* name) { return std::getenv(name); }) {}

service_manager::service_manager(const variables& environment) {
  // A path, or `@` for the abstract namespace (sd_notify(3)).
  if (const char* address = environment("NOTIFY_SOCKET"))
    if ((*address == '/' || *address == '@') && std::strlen(address) < sizeof sockaddr_un{}.sun_path)
      address_ = address;
  if (const char* folders = environment("RUNTIME_DIRECTORY")) runtime_folders_ = folders;
  const auto watched = number(environment("WATCHDOG_PID"));
  const auto period = number(environment("WATCHDOG_USEC"));
  if (present() && period && *period > 0 && (!watched || *watched == getpid()))
    beat_period_ = std::max(std::chrono::milliseconds(1), std::chrono::milliseconds(*period / 1000 / 3));
  // Another process's descriptors are not ours (sd_listen_fds(3)).
  const char* count = environment("LISTEN_FDS");
  if (count == nullptr || number(environment("LISTEN_PID")) != getpid()) return;
  const auto n = number(count);
  if (n && *n < 1'000)
    passed_ = static_cast<int>(*n);
  else
    passed_fault_ = std::string("LISTEN_FDS is ") + count + ", which is no number of descriptors";
}

bool service_manager::makes_folder_of(std::string_view path) const {
  const auto slash = path.rfind('/');
  if (!present() || slash == path.npos) return false;
  const auto folder = ":" + std::string(path.substr(0, slash)) + ":";
  return (":" + runtime_folders_ + ":").find(folder) != std::string::npos;
}

void service_manager::look_at_sockets(const std::string& needed) {
  if (!passed_fault_.empty()) throw std::runtime_error(passed_fault_);
  const int end = first_passed + std::exchange(passed_, 0);
  for (int fd = first_passed; fd < end; ++fd) fcntl(fd, F_SETFD, FD_CLOEXEC);
  for (int fd = first_passed; fd < end; ++fd) {
    if (const auto fault = fault_of(fd); !fault.empty())
      throw std::runtime_error("the service manager passed " + fault +
                               "; pgwaked takes a listening Unix stream socket: ListenStream=" + needed +
                               " with Accept=no in the socket unit");
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    sockets_.push_back({unique_fd(fd), path_of(fd)});
  }
}

unique_fd service_manager::take_socket(const std::string& path) {
  const auto it = std::find_if(sockets_.begin(), sockets_.end(),
                               [&](const auto& passed) { return same_file(passed.path, path); });
  if (it == sockets_.end()) return {};
  auto fd = std::move(it->fd);
  sockets_.erase(it);
  return fd;
}

void service_manager::ready() { say("READY=1"); }

void service_manager::reloading() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  say("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(now.tv_sec * 1'000'000LL + now.tv_nsec / 1'000));
}

void service_manager::stopping(std::chrono::milliseconds grace) {
  say("STOPPING=1\nEXTEND_TIMEOUT_USEC=" + std::to_string(grace.count() * 1'000));
}

void service_manager::status(std::string_view text) {
  if (text == status_) return;
  status_ = text;
  auto line = "STATUS=" + status_;
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return c < 0x20; }, ' ');
  say(std::move(line));
}

void service_manager::beat() {
  if (beat_period_) say("WATCHDOG=1");
}

void service_manager::say(std::string message) {
  if (!present()) return;
  // What was said of the same matter and not sent yet is out of date: a few messages wait at most.
  const auto matter = message.substr(0, message.find('='));
  std::erase_if(unsaid_, [&](const auto& older) { return older.substr(0, older.find('=')) == matter; });
  unsaid_.push_back(std::move(message));
  while (!unsaid_.empty() && flush()) unsaid_.pop_front();
}

// Sends the oldest message; true if it need not be tried again.
bool service_manager::flush() {
  if (!socket_) socket_ = unique_fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket_) return false;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, address_.data(), address_.size());
  if (address_[0] == '@') address.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  const auto& text = unsaid_.front();
  const auto sent = sendto(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                           reinterpret_cast<const sockaddr*>(&address), size);
  return sent >= 0 || (errno != EAGAIN && errno != ENOBUFS && errno != EINTR);
}

}  // namespace pgwaked
