#include "integration/client_rig.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace pgwake::test {

seen keep(const event& e) {
  seen out;
  out.kind = e.raw().kind;
  out.source = e.raw().source;
  out.channel = e.channel();
  if (e.payload()) out.payload = std::string(*e.payload());
  out.gap = e.gap();
  out.by = e.by();
  out.healthy = e.healthy();
  out.reason = e.reason();
  return out;
}

namespace {

options made(const std::string& socket, const std::string& database, const client_values& more) {
  options o;
  o.ignore_environment();
  o.set("socket", socket);
  o.set("fallback_limit", "0");  // tests that run beside each other are no host to share slots
  if (!database.empty()) o.set("database", database);
  for (const auto& [name, value] : more) o.set(name, value);
  return o;
}

}  // namespace

witness::witness(const std::string& socket, const std::string& database, const client_values& more)
    : client_(made(socket, database, more)) {}

bool witness::await(const std::function<bool(const seen&)>& wanted, milliseconds patience) {
  for (const auto& e : events_)
    if (wanted(e)) return true;
  const auto until = deadline_in(patience);
  while (clock::now() < until) {
    const auto left = std::chrono::duration_cast<milliseconds>(until - clock::now());
    const auto e = client_.next(std::max(left, milliseconds(0)));
    if (!e) return false;
    events_.push_back(keep(*e));
    if (wanted(events_.back())) return true;
  }
  return false;
}

bool witness::await_wake(std::string_view channel, const std::optional<std::string>& payload,
                         milliseconds patience) {
  return await(
      [&](const seen& e) {
        return e.wake() && e.gap.empty() && e.channel == channel && e.payload == payload;
      },
      patience);
}

bool witness::await_gap(std::string_view channel, milliseconds patience) {
  return await([&](const seen& e) { return e.channel == channel && !e.gap.empty(); }, patience);
}

bool witness::await_source(source s, milliseconds patience) {
  const bool there = eventually(patience, [&] {
    take();
    const auto now = client_.state();
    return now.source == static_cast<int>(s) && now.healthy != 0 && now.handing_over == 0;
  });
  take();  // what came with the change, between the last look at the events and that at the state
  return there;
}

void witness::take(milliseconds duration) {
  const auto until = clock::now() + duration;
  for (;;) {
    const auto left =
        std::max(std::chrono::duration_cast<milliseconds>(until - clock::now()), milliseconds(0));
    const auto e = client_.next(left);
    if (!e) return;
    events_.push_back(keep(*e));
  }
}

std::size_t witness::count(const std::function<bool(const seen&)>& which) const {
  return static_cast<std::size_t>(std::count_if(events_.begin(), events_.end(), which));
}

void ledger::take(const seen& e) {
  if (!e.wake()) return;
  auto& b = books_[e.channel];
  if (!e.gap.empty()) {
    b.gap = true;
    ++gaps_;
    return;
  }
  if (!e.payload) return;
  ++numbers_;
  const int n = std::stoi(*e.payload);
  if (n <= b.last)
    faults_.push_back(e.channel + ": " + std::to_string(n) + " after " + std::to_string(b.last));
  else if (!b.gap && n != b.last + 1)
    faults_.push_back(e.channel + ": " + std::to_string(n) + " after " + std::to_string(b.last) +
                      " without a gap");
  b = {n, false};
}

int ledger::last(const std::string& channel) const {
  const auto it = books_.find(channel);
  return it == books_.end() ? 0 : it->second.last;
}

client_rig::client_rig(rig_options options) : rig_(std::move(options)), name_("own-" + rig_.database()) {}

client_values client_rig::values(const client_values& more) const {
  client_values all = {{"application_name", name_}, {"return_delay", "200ms"},  {"return_delay_max", "1s"},
                       {"unhealthy_grace", "1s"},   {"poll_interval", "100ms"}, {"probe_interval", "2s"},
                       {"probe_timeout", "2s"}};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

witness client_rig::client(const client_values& more) { return {hub().socket(), conninfo(), values(more)}; }

int client_rig::own_census() const { return static_cast<int>(own_pids().size()); }

std::vector<int> client_rig::own_pids() const {
  std::vector<int> pids;
  for (const auto& row :
       rig::pg().exec("SELECT pid FROM pg_stat_activity WHERE application_name = '" + name_ + "'"))
    pids.push_back(std::stoi(row[0].value()));
  return pids;
}

int client_rig::terminate_own() const {
  int count = 0;
  for (const int pid : own_pids()) count += rig::pg().terminate(pid) ? 1 : 0;
  return count;
}

int in_child(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    int code = 99;
    try {
      code = body();
    } catch (...) {
      code = 98;
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

fake_hub::fake_hub(script play)
    : play_(std::move(play)), listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const auto where = path();
  std::memcpy(address.sun_path, where.c_str(), where.size() + 1);
  if (::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener_, 64) != 0)
    throw_errno("fake hub");
  thread_ = std::thread([this] {
    while (!stopping_) {
      pollfd waiting{listener_, POLLIN, 0};
      if (::poll(&waiting, 1, 20) <= 0) continue;
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      ++connections_;
      readers_[fd] = {};
      play_(fd, [fd](std::string_view json) {
        const auto bytes = frame_of(json);
        return ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
      });
      ::close(fd);
    }
  });
}

fake_hub::~fake_hub() {
  stopping_ = true;
  thread_.join();
  ::close(listener_);
}

std::string fake_hub::welcome(int heartbeat_ms) {
  return R"({"t":"welcome","v":1,"hub":"fake","version":"0","db":null,"system_id":null,"heartbeat_ms":)" +
         std::to_string(heartbeat_ms) + R"(,"fence":"FAKE"})";
}

std::optional<frame> fake_hub::hear(int fd) {
  auto& reader = readers_[fd];
  while (!stopping_) {
    if (auto text = reader.next()) return frame(std::move(*text));
    pollfd waiting{fd, POLLIN, 0};
    if (::poll(&waiting, 1, 20) <= 0) continue;
    char bytes[4096];
    const auto n = ::recv(fd, bytes, sizeof bytes, 0);
    if (n <= 0) return std::nullopt;
    reader.feed({bytes, static_cast<std::size_t>(n)});
  }
  return std::nullopt;
}

}  // namespace pgwake::test
