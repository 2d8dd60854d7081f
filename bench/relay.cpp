#include "bench/relay.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <stdexcept>
#include <string_view>

#include "support/files.hpp"

namespace pgwake::bench {

bare_relay::bare_relay(const std::string& conninfo, const std::string& channel) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) test::throw_errno("socketpair");
  in_ = ends[0];
  pid_ = fork();
  if (pid_ < 0) test::throw_errno("fork");
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    run(conninfo, channel, ends[1]);
  }
  close(ends[1]);
  char ready = 0;
  if (recv(in_, &ready, 1, 0) != 1) throw std::runtime_error("the bare relay does not start");
}

bare_relay::~bare_relay() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  close(in_);
}

void bare_relay::run(const std::string& conninfo, const std::string& channel, int out) {
  try {
    PGconn* conn = connect_postgres(conninfo);
    execute(conn, "LISTEN \"" + channel + "\"");
    if (send(out, "!", 1, MSG_NOSIGNAL) != 1) _exit(1);
    while (true) {
      pollfd readable{PQsocket(conn), POLLIN, 0};
      poll(&readable, 1, -1);
      if (PQconsumeInput(conn) == 0) _exit(1);
      while (PGnotify* n = PQnotifies(conn)) {
        const std::string line = std::string(n->extra) + '\n';
        if (send(out, line.data(), line.size(), MSG_NOSIGNAL) < 0) _exit(1);
        PQfreemem(n);
      }
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "relay: %s\n", e.what());
  }
  _exit(1);
}

void bare_relay::add_to(receivers& all) {
  all.add(in_, [fd = in_] {
    std::array<char, 4096> bytes{};
    const auto n = recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n == 0) throw std::runtime_error("the bare relay is gone");
    const std::string_view got(bytes.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
    return static_cast<std::size_t>(std::count(got.begin(), got.end(), '\n'));
  });
}

}  // namespace pgwake::bench
