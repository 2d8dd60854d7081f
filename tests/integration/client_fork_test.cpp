#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <atomic>
#include <set>

#include "integration/client_rig.hpp"
#include "support/background.hpp"
#include "support/sanitizer.hpp"
#include "support/skip.hpp"

using namespace pgwake;
using namespace pgwake::test;

// A child that opens a client of its own starts a thread, which TSan does not like after a fork of many.
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }

namespace {

// What the descriptors of this process are, by number: "socket:[123]", "anon_inode:[eventfd]", ...
std::map<int, std::string> descriptors() {
  std::map<int, std::string> found;
  DIR* d = ::opendir("/proc/self/fd");
  while (const auto* e = ::readdir(d)) {
    const auto path = std::string("/proc/self/fd/") + e->d_name;
    char target[256];
    const auto n = ::readlink(path.c_str(), target, sizeof target);
    if (n > 0 && std::atoi(e->d_name) != ::dirfd(d))
      found[std::atoi(e->d_name)] = {target, static_cast<std::size_t>(n)};
  }
  ::closedir(d);
  return found;
}

// In the child: nothing of the client is open, and every call says so. 0 is good. `spared`: so many sockets may
// be, of a connect that took longer than a fork waits for it (docs/client.md).
int check_forked(witness& w, const std::map<int, std::string>& before_open, int spared = 0) {
  for (const auto& [fd, what] : descriptors())
    if (!before_open.contains(fd) || before_open.at(fd) != what) {
      if (what.starts_with("socket:") && spared-- > 0) continue;
      std::fprintf(stderr, "the child still has %d: %s\n", fd, what.c_str());
      return 1;
    }
  auto* raw = w.client().raw();
  const pgwake_event* e = nullptr;
  pgwake_state s{};
  s.size = sizeof s;
  if (pgwake_subscribe(raw, "c", 100) != PGWAKE_FORKED) return 2;
  if (pgwake_next(raw, &e, 100) != PGWAKE_FORKED || e != nullptr) return 3;
  if (pgwake_unsubscribe(raw, "c") != PGWAKE_FORKED) return 4;
  if (pgwake_fd(raw) != PGWAKE_FORKED) return 5;
  if (pgwake_get_state(raw, &s) != PGWAKE_FORKED) return 6;
  return 0;
}

}  // namespace

TEST_CASE(
    "C8: a child inherits nothing and is told so; the parent notices nothing, before, in and after "
    "fallback") {
  client_rig r;
  r.notify("c", "so that the publisher's connection is there before");
  static_cast<void>(r.own_census());
  const auto before = descriptors();
  auto w = r.client();
  REQUIRE(w.client().subscribe("c", 10s));
  const auto parent_is_well = [&](int n) {
    r.notify("c", std::to_string(n));
    CHECK(w.await_wake("c", std::to_string(n)));
  };
  CHECK(in_child([&] { return check_forked(w, before); }) == 0);
  parent_is_well(1);
  r.hub().kill();
  CHECK(in_child([&] { return check_forked(w, before, 1); }) == 0);
  REQUIRE(w.await_source(source::own));
  const auto pids = r.own_pids();
  REQUIRE(pids.size() == 1);
  CHECK(in_child([&] { return check_forked(w, before); }) == 0);
  CHECK(in_child([&] {
          pgwake_close(w.client().raw());
          return 0;
        }) == 0);
  parent_is_well(2);
  CHECK(r.own_pids() == pids);
  r.hub().start();
  REQUIRE(w.await_source(source::hub));
  CHECK(in_child([&] { return check_forked(w, before); }) == 0);
  parent_is_well(3);
  CHECK(w.client().state().hub_connects == 2);
  CHECK(w.gaps() == 1);
}

TEST_CASE("C8: a child may reopen the handle and is a worker of its own") {
  client_rig r;
  auto w = r.client();
  REQUIRE(w.client().subscribe("c", 10s));
  CHECK_THROWS_AS(w.client().reopen(), error);  // this is its own process
  CHECK(in_child([&] {
          w.client().reopen();
          w.forget();
          if (w.client().state().channels != 0) return 1;
          if (!w.client().subscribe("c", 10s)) return 2;
          connection to(r.conninfo());
          to.notify("c", "child");
          if (!w.await_wake("c", "child")) return 3;
          // And its own child in turn.
          return in_child(
              [&] { return pgwake_subscribe(w.client().raw(), "c", 100) == PGWAKE_FORKED ? 0 : 4; });
        }) == 0);
  CHECK(w.await_wake("c", "child"));
}

TEST_CASE("C8: forks from any thread, in the midst of subscribing, of connecting and of a flood") {
  client_rig r;
  auto w = r.client();
  REQUIRE(w.client().subscribe("c", 10s));
  background churn([&](const auto& stop) {
    for (int i = 0; !stop; ++i) {
      CHECK(w.client().subscribe("churn" + std::to_string(i % 5), 10s));
      w.client().unsubscribe("churn" + std::to_string(i % 5));
    }
  });
  background flood([&](const auto& stop) {
    auto to = r.host().publisher();
    for (int i = 1; !stop; ++i) to.exec("NOTIFY c, '" + std::to_string(i) + "'");
  });
  std::atomic<int> bad = 0;
  const auto fork_often = [&](const auto& stop) {
    while (!stop) {
      const pid_t pid = ::fork();
      if (pid == 0) ::_exit(pgwake_subscribe(w.client().raw(), "c", 10) == PGWAKE_FORKED ? 0 : 1);
      int status = 0;
      ::waitpid(pid, &status, 0);
      if (status != 0) ++bad;
    }
  };
  {
    background one(fork_often);
    background two(fork_often);
    for (int i = 0; i < 4; ++i) {
      w.take(300ms);
      r.hub().kill();
      REQUIRE(w.await_source(source::own));
      w.take(300ms);
      r.hub().start();
      REQUIRE(w.await_source(source::hub, 20s));
    }
  }
  churn.stop();
  flood.stop();
  CHECK(bad == 0);
  w.take();
  ledger books;
  books.take(w.events());
  for (const auto& f : books.faults()) FAIL_CHECK(f);
  CHECK(eventually(5s, [&] { return r.own_census() == 0; }));
}

TEST_CASE("C8: a fork behind the C library's back is noticed too") {
  if (under_tsan) SKIP_CASE("TSan does not survive it");
  client_rig r;
  auto w = r.client();
  REQUIRE(w.client().subscribe("c", 10s));
  const auto pid = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (pid == 0) ::_exit(pgwake_subscribe(w.client().raw(), "c", 100) == PGWAKE_FORKED ? 0 : 1);
  int status = 0;
  ::waitpid(pid, &status, 0);
  CHECK(status == 0);
  r.notify("c", "x");
  CHECK(w.await_wake("c", "x"));
}

TEST_CASE("case 23: a worker starts another program and is killed: the hub sees it gone at once") {
  client_rig r;
  int started[2];
  REQUIRE(::pipe2(started, O_CLOEXEC) == 0);
  const pid_t worker = ::fork();
  if (worker == 0) {
    auto w = r.client();
    if (!w.client().subscribe("c", 10s)) ::_exit(1);
    const pid_t program = ::fork();
    if (program == 0) {
      ::execlp("sleep", "sleep", "60", nullptr);
      ::_exit(1);
    }
    static_cast<void>(!::write(started[1], &program, sizeof program));
    ::pause();
  }
  ::close(started[1]);
  pid_t program = 0;
  REQUIRE(::read(started[0], &program, sizeof program) == sizeof program);
  ::close(started[0]);
  const auto workers = [&] {
    const auto status = run({pgwaked_command({"status", "--socket", r.hub().socket(), "--json"})});
    return count_of(status.out, "\"channels\":1") + count_of(status.out, "\"c\"");
  };
  REQUIRE(eventually(10s, [&] { return workers() > 0; }));
  ::kill(worker, SIGKILL);
  ::waitpid(worker, nullptr, 0);
  CHECK(eventually(10s, [&] { return workers() == 0; }));  // which the program outlives
  CHECK(::kill(program, SIGKILL) == 0);
}
