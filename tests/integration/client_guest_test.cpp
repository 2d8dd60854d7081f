#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <sstream>
#include <utility>

#include "integration/client_exits.hpp"
#include "integration/client_rig.hpp"
#include "support/background.hpp"
#include "support/sanitizer.hpp"
#include "support/skip.hpp"

using namespace pgwake;
using namespace pgwake::test;

namespace {

std::vector<std::string> entries(const std::string& path) {
  std::vector<std::string> found;
  DIR* d = ::opendir(path.c_str());
  while (const auto* e = ::readdir(d))
    if (e->d_name[0] != '.') found.emplace_back(e->d_name);
  ::closedir(d);
  return found;
}

std::string field(const std::string& path, const std::string& name) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);)
    if (line.rfind(name + ":", 0) == 0) return line.substr(line.find_first_not_of(" \t", name.size() + 1));
  return "";
}

long resident_kib() { return std::stol(field("/proc/self/status", "VmRSS")); }

}  // namespace

TEST_CASE(
    "C9 case 22: a guest: threads with all signals blocked, close-on-exec, no handler, no SIGPIPE, no "
    "output") {
  client_rig r;
  rig::pg().value("SELECT 1");
  const auto own_threads = entries("/proc/self/task");
  const auto before = entries("/proc/self/fd");
  struct sigaction actions_before[65];
  for (int s = 1; s < 65; ++s) ::sigaction(s, nullptr, &actions_before[s]);

  auto w = r.client();
  REQUIRE(w.client().subscribe("c", 10s));
  // The hub dies while the client writes: only the library is there to be hit by SIGPIPE.
  background writing([&](const auto& stop) {
    for (int i = 0; !stop; ++i) {
      static_cast<void>(w.client().subscribe("w" + std::to_string(i % 50), 5s));
      w.client().unsubscribe("w" + std::to_string(i % 50));
    }
  });
  std::size_t most = 0;
  std::size_t before_that = 0;  // a thread that has ended may stand in /proc for a moment
  for (int i = 0; i < 4; ++i) {
    r.hub().kill();
    REQUIRE(eventually(10s, [&] {
      const auto now = entries("/proc/self/task").size();
      most = std::max(most, std::min(now, std::exchange(before_that, now)));
      return w.client().state().source == PGWAKE_SOURCE_OWN;
    }));
    r.hub().start();
    REQUIRE(eventually(20s, [&] { return w.client().state().source == PGWAKE_SOURCE_HUB; }));
  }
  writing.stop();
  if (!under_tsan) CHECK(most <= own_threads.size() + 1 + 2);  // the test's own writer, and the library's two

  for (const auto& task : entries("/proc/self/task")) {
    if (under_tsan || std::find(own_threads.begin(), own_threads.end(), task) != own_threads.end()) continue;
    const auto blocked = std::stoull(field("/proc/self/task/" + task + "/status", "SigBlk"), nullptr, 16);
    // All but SIGKILL and SIGSTOP, which nobody can block, and the two that the C library keeps (32 and 33).
    CHECK((blocked | 1ULL << 8U | 1ULL << 18U | 1ULL << 31U | 1ULL << 32U) == ~0ULL);
  }
  for (const auto& fd : entries("/proc/self/fd")) {
    if (std::find(before.begin(), before.end(), fd) != before.end()) continue;
    const int flags = ::fcntl(std::stoi(fd), F_GETFD);
    if (flags >= 0) CHECK((flags & FD_CLOEXEC) != 0);
  }
  for (int s = 1; s < 65; ++s) {
    struct sigaction now {};
    if (::sigaction(s, nullptr, &now) == 0) CHECK(now.sa_handler == actions_before[s].sa_handler);
  }
}

TEST_CASE("C9: opened and closed ten thousand times without a leak") {
  client_rig r;
  const auto once = [&](const client_values& more) {
    auto w = r.client(more);
    static_cast<void>(w);
  };
  for (int i = 0; i < 500; ++i) once({});
  const auto threads = entries("/proc/self/task").size();
  const auto descriptors = entries("/proc/self/fd").size();
  const auto memory = resident_kib();
  for (int i = 0; i < 10'000; ++i) once({});
  CHECK(eventually(5s, [&] { return entries("/proc/self/task").size() <= threads; }));
  CHECK(entries("/proc/self/fd").size() == descriptors);
  if (!sanitized) CHECK(resident_kib() - memory < 2'048);
  // And some that come as far as an own connection.
  for (int i = 0; i < 50; ++i) {
    auto w = r.client({{"policy", "direct"}});
    REQUIRE(w.client().subscribe("c", 10s));
  }
  CHECK(eventually(5s, [&] { return r.own_census() == 0; }));
  CHECK(entries("/proc/self/fd").size() == descriptors);
}

TEST_CASE("C9: closed while other threads wait, and while connecting hangs") {
  client_rig r;
  fault_proxy door(rig::pg());
  door.hang_connects();
  r.hub().kill();
  for (int i = 0; i < 20; ++i) {
    auto w = std::make_unique<witness>(r.hub().socket(), door.conninfo(), r.values());
    auto* raw = w->client().raw();
    background subscribing([raw](const auto&) { CHECK(pgwake_subscribe(raw, "c", -1) == PGWAKE_CLOSED); });
    background reading([raw](const auto&) {
      const pgwake_event* e = nullptr;
      int last = PGWAKE_OK;
      while (last == PGWAKE_OK) last = pgwake_next(raw, &e, -1);
      CHECK(last == PGWAKE_CLOSED);
    });
    REQUIRE(eventually(5s, [&] { return w->client().state().channels == 1; }));
    pgwake_shutdown(raw);
    subscribing.join();
    reading.join();
    CHECK(time_of([&] { w.reset(); }) < at_load(500ms));
  }
}

TEST_CASE("C9: a program that exits without closing its handles exits, and one that closes them late too") {
  client_rig r;
  check_that_it_exits(r, {"open", "closed"});
}

TEST_CASE("C10: the descriptor is readable exactly while events wait, in poll and epoll") {
  client_rig r;
  auto w = r.client();
  REQUIRE(w.client().subscribe("c", 10s));
  REQUIRE(w.await_source(source::hub));
  w.take();
  const int fd = w.client().fd();
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event want{};
  want.events = EPOLLIN;
  REQUIRE(::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &want) == 0);
  const auto readable = [&](int ms) {
    pollfd p{fd, POLLIN, 0};
    epoll_event got{};
    const int first = ::poll(&p, 1, ms);
    const int second = ::epoll_wait(epoll, &got, 1, 0);
    CHECK(first == second);
    return first == 1;
  };
  for (int i = 0; i < 20; ++i) {
    CHECK_FALSE(readable(0));
    r.notify("c", "1");
    r.notify("c", "2");
    REQUIRE(readable(5'000));
    REQUIRE(eventually(5s, [&] { return w.client().state().waiting == 2; }));
    REQUIRE(w.client().next(0ms));
    CHECK(readable(0));
    REQUIRE(w.client().next(0ms));
    CHECK_FALSE(readable(0));
    CHECK_FALSE(w.client().next(0ms));
  }
  r.notify("c", "gone");
  REQUIRE(readable(5'000));
  w.client().unsubscribe("c");
  CHECK_FALSE(readable(0));
  ::close(epoll);
  CHECK(time_of([&] { CHECK_FALSE(w.client().next(120ms)); }) >= 120ms);
}

TEST_CASE("C10: durable wakes coalesce, and a program that does not read is told what it lost") {
  client_rig r;
  auto w = r.client({{"queue_max_bytes", "64KiB"}});
  for (const char* c : {"d", "e", "end"}) REQUIRE(w.client().subscribe(c, 10s));
  auto to = r.host().publisher();
  for (int i = 0; i < 200; ++i) to.notify("d");
  to.exec("SELECT pg_notify('e', n || repeat('.', 1000)) FROM generate_series(1, 500) n");
  to.notify("end");
  // It always reads the hub although nobody takes anything here: this ack comes behind all of that.
  REQUIRE(w.client().subscribe("behind", 10s));
  CHECK(w.client().state().discarded > 300);
  CHECK(w.client().state().waiting_bytes <= 66 * 1024);  // durable wakes and the gap are beyond the bound
  REQUIRE(w.await_wake("end"));
  CHECK(w.count([](const seen& e) { return e.channel == "d"; }) < 200);
  CHECK(w.count([](const seen& e) { return e.channel == "d"; }) >= 1);
  CHECK(w.count([](const seen& e) { return e.channel == "e" && e.gap == "overflow"; }) == 1);
  const auto kept = w.count([](const seen& e) { return e.channel == "e" && e.payload.has_value(); });
  CHECK(kept + w.client().state().discarded == 500);
  to.notify("e", "after");
  CHECK(w.await_wake("e", "after"));
}

TEST_CASE(
    "C10: the callback style hands out what waits, in order, and keeps the rest when it is told to stop") {
  client_rig r;
  auto w = r.client();
  REQUIRE(w.client().subscribe("c", 10s));
  for (int i = 0; i < 10; ++i) r.notify("c", std::to_string(i));
  REQUIRE(eventually(5s, [&] { return w.client().state().wakes == 10; }));
  std::vector<std::string> got;
  const auto take = [&](const event& e) {
    if (e.payload()) got.emplace_back(*e.payload());
    return got.size() != 4;
  };
  w.client().dispatch(take, 1s);
  CHECK(got.size() == 4);
  struct trouble {};
  CHECK_THROWS_AS(w.client().dispatch([&](const event&) -> bool { throw trouble(); }, 1s), trouble);
  CHECK(w.client().dispatch(take, 1s, 2) == 2);
  while (got.size() < 9) REQUIRE(w.client().dispatch(take, 1s) > 0);
  CHECK(got == std::vector<std::string>{"0", "1", "2", "3", "5", "6", "7", "8", "9"});
  CHECK(w.client().dispatch(take, 50ms) == 0);
}

TEST_CASE("C12: a hub that runs as somebody else is not trusted") {
  if (::geteuid() != 0) SKIP_CASE(needs_root);
  client_rig r;
  temp_dir home;
  ::chmod(home.path().c_str(), 0777);
  // The impostor: what a hub is trusted for is who listens, not who owns the file.
  process impostor(
      {.argv =
           {"/usr/bin/perl", "-MIO::Socket::UNIX", "-e",  // which every Debian has
            "$| = 1; $s = IO::Socket::UNIX->new(Local => shift, Listen => 5) or die $!; print 'up'; sleep 60",
            home / "hub.sock"},
       .account = "nobody",
       .mask = 0});
  REQUIRE(impostor.wait_for_out("up", 10s));
  witness w(home / "hub.sock", r.conninfo(), r.values());
  CHECK(time_of([&] { REQUIRE(w.client().subscribe("c", 10s)); }) <
        at_load(1'500ms));  // at once, not after a deadline
  CHECK(w.client().state().source == PGWAKE_SOURCE_OWN);
  CHECK(w.client().state().hub_connects == 0);
  witness trusting(home / "hub.sock", r.conninfo(),
                   r.values({{"hub_user", "nobody"}, {"welcome_timeout", "1s"}}));
  CHECK(time_of([&] { REQUIRE(trusting.client().subscribe("c", 10s)); }) >= 1s);
}
