#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <optional>
#include <random>

#include "integration/client_exits.hpp"
#include "integration/client_seat_rig.hpp"
#include "support/background.hpp"
#include "support/sanitizer.hpp"
#include "support/skip.hpp"

using namespace pgwake;
using namespace pgwake::test;

// Forks, and the end of the process, while a thread of the application runs the library's loop, or has just
// left it.
namespace {

// A fork that takes long, as one of a large process does: this handler was there before the library's, so it
// runs when the library has been brought to rest.
std::atomic<int> fork_takes_ms = 0;
[[maybe_unused]] const int slow_forks = pthread_atfork(
    [] {
      if (const int ms = fork_takes_ms; ms > 0) ::usleep(static_cast<useconds_t>(ms) * 1'000);
    },
    nullptr, nullptr);

int open_sockets() {
  int count = 0;
  for (const auto& fd : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed;  // the one that lists them
    count += std::filesystem::read_symlink(fd, closed).string().rfind("socket:", 0) == 0 ? 1 : 0;
  }
  return count;
}

// The child has no use of the handle. `sockets`: how many it has, if that is known.
int fork_and_look(pgwake_handle* raw, std::optional<int> sockets = {}) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (pgwake_subscribe(raw, "c", 10) != PGWAKE_FORKED) ::_exit(1);
    ::_exit(!sockets || open_sockets() == *sockets ? 0 : 2);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("C8 C10: a fork that takes long keeps nobody beyond the deadline, and loses nothing") {
  served_client s;
  fork_takes_ms = 800;
  // In the midst of waiting.
  for (const bool before : {true, false}) {
    background forking([&](const auto&) {
      ::usleep(20'000);
      CHECK(fork_and_look(s.raw) == 0);
    });
    ::usleep(before ? 1'000 : 100'000);
    CHECK(time_of([&] { CHECK(next_of(s.raw, 150) == PGWAKE_TIMEOUT); }) < at_load(600ms));
    s.r.notify("c", before ? "1" : "2");
    CHECK(s.w.await_wake("c", before ? "1" : "2", 5s));
    forking.join();
  }
  // Asked to stop meanwhile.
  background forking([&](const auto&) {
    ::usleep(20'000);
    CHECK(fork_and_look(s.raw) == 0);
  });
  background stopping([&](const auto&) {
    ::usleep(200'000);
    pgwake_shutdown(s.raw);
  });
  CHECK(time_of([&] { CHECK(next_of(s.raw, -1) == PGWAKE_CLOSED); }) < at_load(600ms));
  forking.join();
  fork_takes_ms = 0;
}

TEST_CASE("C8: forks while a thread waits, comes and goes: each is quick, and events are prompt after it") {
  served_client s;
  std::atomic<int> last = 0;
  std::atomic<bool> done = false;
  background reading([&](const auto&) {
    std::mt19937 random(5);
    while (!done) {
      const pgwake_event* e = nullptr;
      if (pgwake_next(s.raw, &e, random() % 2 == 0 ? -1 : 2) != PGWAKE_OK) continue;
      if (e->payload != nullptr) last = std::atoi(e->payload);
      if (random() % 4 == 0) ::usleep(random() % 7'000);
    }
  });
  std::mt19937 random(6);
  milliseconds longest{0};
  milliseconds latest{0};
  for (int n = 1; n <= 200; ++n) {
    longest = std::max(longest, time_of([&] { CHECK(fork_and_look(s.raw) == 0); }));
    if (random() % 2 == 0) ::usleep(random() % 7'000);
    s.r.notify("c", std::to_string(n));
    latest = std::max(latest, time_of([&] { REQUIRE(eventually(10s, [&] { return last == n; })); }));
  }
  done = true;
  s.r.notify("c", "0");
  reading.join();
  CHECK(longest < at_load(1s));
  CHECK(latest < at_load(1s));
  CHECK(s.w.client().state().gaps == 0);
  CHECK(s.w.client().state().hub_connects == 1);
}

TEST_CASE("C8: a fork inside a callback") {
  served_client s;
  for (int i = 0; i < 20; ++i) {
    s.r.notify("c", std::to_string(i));
    int status = -1;
    const auto fork_here = [&](const event&) {
      const int all_but_the_hubs = open_sockets() - 1;
      CHECK(time_of([&] { status = fork_and_look(s.raw, all_but_the_hubs); }) < at_load(1s));
    };
    // Right after the wait, when nobody runs the loop; and later, when the background thread does.
    if (i % 2 == 0) {
      REQUIRE(s.w.client().dispatch(fork_here, 10s) == 1);
    } else {
      REQUIRE(eventually(10s, [&] { return s.w.client().state().waiting == 1; }));
      REQUIRE(s.w.client().dispatch(fork_here, 0s) == 1);
    }
    CHECK(status == 0);
  }
  CHECK(s.w.client().state().hub_connects == 1);
}

namespace {

std::atomic<pid_t> child_of_handler = 0;
volatile sig_atomic_t in_child_of_handler = 0;

void fork_in_handler(int) {
  const int error = errno;
  const pid_t pid = ::fork();
  if (pid == 0) {
    in_child_of_handler = 1;
    ::alarm(10);
  } else {
    child_of_handler = pid;
  }
  errno = error;
}

}  // namespace

TEST_CASE("C8: a fork in a signal handler that interrupts the wait; the child returns from it") {
  if (under_tsan) SKIP_CASE("TSan has no fork in signal handlers");
  served_client s;
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = fork_in_handler;
  ::sigaction(SIGUSR1, &action, &before);
  for (int i = 0; i < 20; ++i) {
    child_of_handler = 0;
    const auto me = pthread_self();
    background kicking([&](const auto&) {
      ::usleep(20'000);
      pthread_kill(me, SIGUSR1);
      while (child_of_handler == 0) ::usleep(100);
      s.r.notify("c", std::to_string(i));
    });
    const pgwake_event* e = nullptr;
    const int r = pgwake_next(s.raw, &e, 5'000);
    if (in_child_of_handler != 0) ::_exit(r == PGWAKE_FORKED ? 0 : 1);
    CHECK(r == PGWAKE_OK);
    kicking.join();
    int status = -1;
    ::waitpid(child_of_handler, &status, 0);
    CHECK(status == 0);
  }
  ::sigaction(SIGUSR1, &before, nullptr);
  CHECK(s.w.client().state().hub_connects == 1);
}

TEST_CASE("C8: a fork after shutdown is as quick as any") {
  served_client s;
  s.w.client().shutdown();
  for (int i = 0; i < 5; ++i) {
    int status = -1;
    CHECK(time_of([&] { status = fork_and_look(s.raw); }) < at_load(1s));
    if (!under_tsan) CHECK(status == 0);  // TSan: the thread that has ended is a leak in the child
    ::usleep(5'000);
  }
}

TEST_CASE("C9: a program that ends its waiting threads while it exits exits") {
  client_rig r;
  check_that_it_exits(r, {"joins", "shuts"});
}

TEST_CASE("C8 C9 C10: all at once, and shut down in the midst of it: every call returns") {
  client_rig r;
  std::atomic<bool> over = false;
  background publishing([&](const auto&) {
    auto to = r.host().publisher();
    for (int n = 1; !over; ++n) to.exec("NOTIFY c, '" + std::to_string(n) + "'; NOTIFY d");
  });
  std::mt19937 random(7);
  for (int round = 0; round < 40; ++round) {
    auto w = std::make_unique<witness>(r.client());
    auto* raw = w->client().raw();
    REQUIRE(w->client().subscribe("c", 10s));
    ledger books;
    std::atomic<int> wrong = 0;
    background reading([&](const auto&) {
      std::mt19937 own(static_cast<unsigned>(round));
      constexpr int timeouts_ms[] = {-1, 0, 1, 3, 2'000};
      for (int result = PGWAKE_OK; result != PGWAKE_CLOSED;) {
        const pgwake_event* e = nullptr;
        result = pgwake_next(raw, &e, timeouts_ms[own() % 5]);
        if (result == PGWAKE_OK)
          books.take(copy_of(e));
        else if (result != PGWAKE_TIMEOUT && result != PGWAKE_CLOSED)
          ++wrong;
        if (own() % 10 == 0) ::usleep(own() % 8'000);
      }
    });
    background asking([&](const auto&) {
      for (int result = PGWAKE_OK; result != PGWAKE_CLOSED;) {
        result = pgwake_subscribe(raw, "d", 10'000);
        if (result != PGWAKE_OK && result != PGWAKE_CLOSED) ++wrong;
        if (result == PGWAKE_OK) result = pgwake_unsubscribe(raw, "d");
        pgwake_state state{};
        state.size = sizeof state;
        pgwake_get_state(raw, &state);
      }
    });
    background forking([&](const auto& stop) {
      while (!stop) {
        const pid_t pid = ::fork();
        if (pid == 0) ::_exit(pgwake_unsubscribe(raw, "c") == PGWAKE_FORKED ? 0 : 1);
        int status = 0;
        ::waitpid(pid, &status, 0);
        if (status != 0) ++wrong;
        ::usleep(3'000);
      }
    });
    ::usleep(random() % 100'000);
    if (round % 8 == 3) r.hub().kill();
    if (round % 8 == 5) r.hub().start();
    ::usleep(random() % 100'000);
    pgwake_shutdown(raw);
    CHECK(time_of([&] {
            reading.join();
            asking.join();
            forking.stop();
          }) < at_load(5s));
    CHECK(time_of([&] { w.reset(); }) < at_load(2s));
    CHECK(wrong == 0);
    for (const auto& f : books.faults()) FAIL_CHECK(f);
  }
  over = true;
  publishing.join();
}
