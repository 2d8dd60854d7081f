#include "support/fault_proxy.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "support/cluster.hpp"
#include "support/files.hpp"

namespace pgwake::test {
namespace {

constexpr auto unlimited = static_cast<std::size_t>(-1);

union any_address {
  sockaddr generic;
  sockaddr_in tcp;
  sockaddr_un local;
};

socklen_t fill(any_address& address, const endpoint& where) {
  std::memset(&address, 0, sizeof address);
  if (where.path.empty()) {
    address.tcp.sin_family = AF_INET;
    address.tcp.sin_port = htons(static_cast<std::uint16_t>(where.port));
    address.tcp.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return sizeof address.tcp;
  }
  address.local.sun_family = AF_UNIX;
  if (where.path.size() >= sizeof address.local.sun_path) throw std::runtime_error("too long: " + where.path);
  std::memcpy(address.local.sun_path, where.path.data(), where.path.size());
  return sizeof address.local;
}

int new_socket(const endpoint& where) {
  const int fd = socket(where.path.empty() ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) throw_errno("socket");
  const int on = 1;
  if (where.path.empty()) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return fd;
}

}  // namespace

fault_proxy::fault_proxy(const cluster& server)
    : fault_proxy(endpoint{random_port()}, endpoint{server.port()}, true) {}

fault_proxy::fault_proxy(endpoint listen, endpoint target, bool speaks_postgres)
    : listen_(std::move(listen)), target_(std::move(target)), speaks_postgres_(speaks_postgres) {
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_ < 0) throw_errno("eventfd");
  open_listener();
  thread_ = std::thread([this] { run(); });
}

fault_proxy::~fault_proxy() {
  change([&] { stopping_ = true; });
  thread_.join();
  close_listener();
  close(wake_);
}

std::string fault_proxy::conninfo(std::string_view database, std::string_view user) const {
  return "host=127.0.0.1 port=" + std::to_string(listen_.port) + " dbname='" + std::string(database) +
         "' user='" + std::string(user) + "'";
}

template <class Change>
void fault_proxy::change(Change&& make) {
  // Signalled under the lock: whoever holds it next knows from the descriptor whether something was switched.
  const std::lock_guard lock(mutex_);
  make();
  const std::uint64_t one = 1;
  (void)!write(wake_, &one, sizeof one);
}

void fault_proxy::set_target(endpoint target) {
  change([&] { target_ = std::move(target); });
}
void fault_proxy::black_hole(direction way) {
  change([&] {
    faults_.to_server_lost = way != direction::to_client;
    faults_.to_client_lost = way != direction::to_server;
  });
}
void fault_proxy::end_black_hole() {
  change([&] { faults_.to_server_lost = faults_.to_client_lost = false; });
}
void fault_proxy::delay(milliseconds each_way) {
  change([&] { faults_.delay = each_way; });
}
void fault_proxy::deafen(bool on) {
  change([&] { faults_.deaf = on; });
}
void fault_proxy::refuse(bool on) {
  change([&] {
    if (on) return close_listener();
    if (listener_ < 0) open_listener();
  });
}
void fault_proxy::hang_connects(bool on) {
  change([&] { hang_connects_ = on; });
}
void fault_proxy::stall_after(std::size_t bytes) {
  change([&] { stall_after_ = bytes; });
}
void fault_proxy::cut_after(std::size_t bytes) {
  change([&] { cut_after_ = bytes; });
}
void fault_proxy::end_limits() {
  change([&] { stall_after_ = cut_after_ = unlimited; });
}
void fault_proxy::close_all() {
  change([&] { links_.clear(); });
}
void fault_proxy::reset_all() {
  change([&] {
    for (auto& link : links_) link.reset();
    links_.clear();
  });
}
void fault_proxy::fail_query(std::string text, std::string sqlstate, int times) {
  change([&] {
    faults_.rules.push_back(
        {std::move(text), query_rule::action::fail, std::move(sqlstate), milliseconds(0), times, {}});
  });
}
void fault_proxy::swallow_query(std::string text, int times) {
  change([&] {
    faults_.rules.push_back({std::move(text), query_rule::action::swallow, {}, milliseconds(0), times, {}});
  });
}
void fault_proxy::answer_query(std::string text, std::string bytes, int times) {
  change([&] {
    faults_.rules.push_back(
        {std::move(text), query_rule::action::answer, {}, milliseconds(0), times, std::move(bytes)});
  });
}
void fault_proxy::answer_logins(std::string bytes) {
  change([&] { faults_.login_answer = std::move(bytes); });
}
void fault_proxy::say(const std::string& bytes) {
  change([&] {
    for (auto& link : links_) link.say(bytes);
  });
}
void fault_proxy::hold_query(std::string text, milliseconds duration, int times) {
  change([&] {
    faults_.rules.push_back({std::move(text), query_rule::action::hold_query, {}, duration, times, {}});
  });
}
void fault_proxy::hold_answer(std::string text, milliseconds duration, int times) {
  change([&] {
    faults_.rules.push_back({std::move(text), query_rule::action::hold_answer, {}, duration, times, {}});
  });
}
void fault_proxy::clear_rules() {
  change([&] { faults_.rules.clear(); });
}

std::size_t fault_proxy::accepted() const {
  const std::lock_guard lock(mutex_);
  return accepted_;
}
std::size_t fault_proxy::open() const {
  const std::lock_guard lock(mutex_);
  return links_.size();
}
std::vector<std::string> fault_proxy::queries() const {
  const std::lock_guard lock(mutex_);
  return faults_.queries;
}
void fault_proxy::forget_queries() {
  change([&] { faults_.queries.clear(); });
}

void fault_proxy::open_listener() {
  any_address address;
  const socklen_t length = fill(address, listen_);
  const int fd = new_socket(listen_);
  if (!listen_.path.empty()) unlink(listen_.path.c_str());
  if (bind(fd, &address.generic, length) != 0 || ::listen(fd, 512) != 0) {
    close(fd);
    throw_errno("the proxy cannot listen");
  }
  listener_ = fd;
}

void fault_proxy::close_listener() {
  if (listener_ >= 0) {
    shutdown(listener_, SHUT_RDWR);  // at once, though the thread may still hold it in poll
    close(listener_);
  }
  listener_ = -1;
  if (!listen_.path.empty()) unlink(listen_.path.c_str());
}

int fault_proxy::connect_target() const {
  any_address address;
  const socklen_t length = fill(address, target_);
  const int fd = new_socket(target_);
  if (connect(fd, &address.generic, length) == 0) return fd;
  close(fd);
  return -1;
}

void fault_proxy::accept_one() {
  const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (client < 0) return;
  ++accepted_;
  const int on = 1;
  if (listen_.path.empty()) setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const int server = hang_connects_ ? -1 : connect_target();
  if (server < 0 && !hang_connects_) {
    close(client);
    return;
  }
  links_.emplace_back(client, server, !speaks_postgres_, stall_after_, cut_after_);
}

void fault_proxy::run() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  for (;;) {
    poll_once();
    const std::lock_guard lock(mutex_);
    if (stopping_) return links_.clear();
  }
}

void fault_proxy::poll_once() {
  std::vector<pollfd> wanted;
  std::vector<proxy_link*> polled;
  auto due = clock::time_point::max();
  {
    const std::lock_guard lock(mutex_);
    const auto now = clock::now();
    wanted.push_back({wake_, POLLIN, 0});
    wanted.push_back({faults_.to_server_lost && faults_.to_client_lost ? -1 : listener_, POLLIN, 0});
    for (auto& link : links_) {
      for (const auto& one : {link.client_interest(faults_, now), link.server_interest(faults_, now)})
        wanted.push_back({one.fd, one.events, 0});
      polled.push_back(&link);
      due = std::min(due, link.next_due());
    }
  }
  int timeout = -1;
  if (due != clock::time_point::max())
    timeout = static_cast<int>(std::chrono::duration_cast<milliseconds>(due - clock::now()).count()) + 1;
  poll(wanted.data(), wanted.size(), std::max(timeout, due == clock::time_point::max() ? -1 : 0));

  const std::lock_guard lock(mutex_);
  std::uint64_t count = 0;
  if (read(wake_, &count, sizeof count) > 0)
    return;  // switched meanwhile, links may be gone: look again first
  for (std::size_t i = 0; i < polled.size(); ++i) {
    if (wanted[2 + 2 * i].revents != 0) polled[i]->on_client(wanted[2 + 2 * i].revents, faults_);
    if (wanted[3 + 2 * i].revents != 0) polled[i]->on_server(wanted[3 + 2 * i].revents, faults_);
  }
  links_.remove_if([](const proxy_link& link) { return link.finished(); });
  if (listener_ >= 0 && (wanted[1].revents & POLLIN) != 0) accept_one();
}

}  // namespace pgwake::test
