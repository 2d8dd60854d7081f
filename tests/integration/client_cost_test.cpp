#include <poll.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <csignal>
#include <vector>

#include "integration/client_rig.hpp"
#include "support/sanitizer.hpp"
#include "support/skip.hpp"

using namespace pgwake;
using namespace pgwake::test;

namespace {

constexpr int batches = 20;
constexpr int batch = 200;

void mark() { ::syscall(SYS_getppid); }

// Traced from here on: only this thread's system calls are seen, not the library's own.
[[noreturn, maybe_unused]] void be_traced(const std::string& socket, const std::string& database, int ready,
                                          bool polling) {
  witness w(socket, database, {});
  if (!w.client().subscribe("c", 10s)) ::_exit(1);
  while (w.client().next(100ms)) {
  }
  const int fd = polling ? w.client().fd() : -1;
  ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
  ::raise(SIGSTOP);
  for (int i = 0; i < batches; ++i) {
    if (::write(ready, "x", 1) != 1) ::_exit(2);
    while (w.client().state().waiting < batch) ::usleep(1'000);
    if (polling) {
      pollfd p{fd, POLLIN, 0};
      ::poll(&p, 1, -1);
    }
    mark();
    int count = 0;
    while (w.client().next(0ms)) ++count;
    mark();
    if (count != batch) ::_exit(3);
  }
  ::_exit(0);
}

// The system calls between each two marks.
[[maybe_unused]] std::vector<int> count_calls(pid_t child, int& status) {
  std::vector<int> counts;
  bool between = false;
  ::waitpid(child, &status, 0);
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr,
           reinterpret_cast<void*>(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL));
  for (;;) {
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    ::waitpid(child, &status, 0);
    if (!WIFSTOPPED(status)) return counts;
    if (WSTOPSIG(status) != (SIGTRAP | 0x80)) continue;
    __ptrace_syscall_info info{};
    ::ptrace(PTRACE_GET_SYSCALL_INFO, child, reinterpret_cast<void*>(sizeof info), &info);
    if (info.op != PTRACE_SYSCALL_INFO_ENTRY) continue;
    if (info.entry.nr == SYS_getppid) {
      between = !between;
      if (between) counts.push_back(0);
    } else if (between) {
      ++counts.back();
    }
  }
}

}  // namespace

TEST_CASE("C10: a batch of events costs the program at most one system call") {
  if (sanitized) SKIP_CASE("sanitizers make system calls of their own");
  client_rig r;
  for (const bool polling : {true, false}) {
    INFO((polling ? "with the descriptor" : "without"));
    int ready[2];
    REQUIRE(::pipe(ready) == 0);
    const auto socket = r.hub().socket();
    const auto database = r.conninfo();
    const pid_t child = ::fork();
    if (child == 0) be_traced(socket, database, ready[1], polling);
    ::close(ready[1]);
    std::thread publisher([&] {
      auto to = r.host().publisher();
      char one = 0;
      while (::read(ready[0], &one, 1) == 1)
        to.exec("SELECT pg_notify('c', n::text) FROM generate_series(1, " + std::to_string(batch) + ") n");
    });
    int status = 0;
    // The tracer is this thread; the publisher ends with the child's end of the pipe.
    const auto counts = count_calls(child, status);
    publisher.join();
    ::close(ready[0]);
    REQUIRE(WIFEXITED(status));
    REQUIRE(WEXITSTATUS(status) == 0);
    REQUIRE(counts.size() == batches);
    for (const int n : counts) CHECK(n <= 1);
  }
}
