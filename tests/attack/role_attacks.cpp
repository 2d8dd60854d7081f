// What a database login with CONNECT alone can do to a hub, and what anybody can who reaches its metrics
// port.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <thread>
#include <vector>

#include "attack/attack.hpp"
#include "support/connection.hpp"

namespace pgwake::attack {
namespace {

void repeat(const target& t, const cease& stop, const std::string& sql) {
  test::connection role(t.conninfo);
  while (!stop) role.exec(sql);
}

void small_notifications(const target& t, const cease& stop) {
  repeat(t, stop, "SELECT pg_notify('nobody', n::text) FROM generate_series(1, 1000) n");
}

void large_notifications(const target& t, const cease& stop) {
  repeat(t, stop, "SELECT pg_notify('nobody', lpad(n::text, 7900, 'x')) FROM generate_series(1, 50) n");
}

void guessed_fences(const target& t, const cease& stop) {
  repeat(t, stop,
         "SELECT pg_notify('pgwake.fence', md5(n::text || random()::text) || ':' || n) "
         "FROM generate_series(1, 500) n");
}

void malformed_fences(const target& t, const cease& stop) {
  repeat(t, stop,
         "SELECT pg_notify('pgwake.fence', repeat(':', n) || '99999999999999999999999' || repeat('x', n)) "
         "FROM generate_series(0, 500) n");
}

// Whatever it hears on the fence channel it says again, and the number after it as well.
void replayed_fences(const target& t, const cease& stop) {
  test::connection role(t.conninfo);
  role.exec("LISTEN \"pgwake.fence\"");
  const auto mine = role.backend_pid();
  while (!stop) {
    const auto n = role.next_notification(20ms);
    if (!n || n->pid == mine) continue;
    const auto colon = n->payload.rfind(':');
    for (int i = 0; i < 200 && !stop; ++i) {
      role.notify("pgwake.fence", n->payload);
      if (colon != std::string::npos)
        role.notify("pgwake.fence", n->payload.substr(0, colon + 1) + std::to_string(i));
    }
  }
}

void reserved_channels(const target& t, const cease& stop) {
  repeat(t, stop,
         "SELECT pg_notify(c, n::text) FROM generate_series(1, 100) n, "
         "unnest(ARRAY['pgwake.bus', 'pgwake.gap', 'pgwake.check', 'pgwake.']) c");
}

void sessions_that_listen(const target& t, const cease& stop) {
  std::vector<std::unique_ptr<test::connection>> sessions;
  for (int i = 0; i < 40; ++i) {
    sessions.push_back(std::make_unique<test::connection>(t.conninfo));
    sessions.back()->exec("LISTEN innocent; LISTEN nobody");
  }
  while (!stop)
    for (const auto& s : sessions) s->exec("NOTIFY nobody");
}

void names_in_payloads(const target& t, const cease& stop) {
  repeat(t, stop,
         "SELECT pg_notify('no' || chr(10) || 'body', E'\\u2028\\x01\\x1b[2J\"}') FROM generate_series(1, "
         "300) n");
}

int connect_tcp(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd >= 0) static_cast<void>(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address));
  return fd;
}

void metrics_connections(const target& t, const cease& stop) {
  while (!stop) {
    std::vector<int> fds;
    for (int i = 0; i < 200; ++i) fds.push_back(connect_tcp(t.metrics_port));
    for (const int fd : fds)
      if (fd >= 0) close(fd);
  }
}

void metrics_scrapes(const target& t, const cease& stop) {
  constexpr std::string_view request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
  std::vector<int> fds(100, -1);
  while (!stop)
    for (auto& fd : fds) {
      if (fd >= 0) {
        char buffer[16'384];
        while (recv(fd, buffer, sizeof buffer, MSG_DONTWAIT) > 0) {
        }
        close(fd);
      }
      fd = connect_tcp(t.metrics_port);
      ::send(fd, request.data(), request.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  for (const int fd : fds)
    if (fd >= 0) close(fd);
}

void metrics_unfinished(const target& t, const cease& stop) {
  std::vector<int> fds;
  for (int i = 0; i < 500 && !stop; ++i) fds.push_back(connect_tcp(t.metrics_port));
  while (!stop) {
    for (const int fd : fds) ::send(fd, "G", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    std::this_thread::sleep_for(20ms);
  }
  for (const int fd : fds)
    if (fd >= 0) close(fd);
}

}  // namespace

const std::vector<attack>& role_attacks() {
  static const std::vector<attack> all{
      {"notify-small", "role", "notifications that nobody wants, 1,000 a transaction", small_notifications,
       true},
      {"notify-large", "role", "the same with payloads of 7,900 bytes", large_notifications},
      {"fences-guessed", "role", "fences with guessed tokens", guessed_fences, true},
      {"fences-malformed", "role", "fences that are malformed", malformed_fences},
      {"fences-replayed", "role", "every fence said again, and the next numbers", replayed_fences},
      {"reserved-channels", "role", "notifications on channels of pgwake's own", reserved_channels},
      {"listeners", "role", "40 sessions that listen to everything", sessions_that_listen},
      {"names", "role", "control characters in names and payloads", names_in_payloads},
      {"metrics-connections", "metrics", "connections to the metrics port that end at once",
       metrics_connections, true},
      {"metrics-scrapes", "metrics", "100 scrapes at a time", metrics_scrapes},
      {"metrics-unfinished", "metrics", "500 requests that do not end", metrics_unfinished},
  };
  return all;
}

}  // namespace pgwake::attack
