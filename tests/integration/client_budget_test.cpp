#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <fstream>
#include <list>

#include "integration/client_rig.hpp"
#include "support/background.hpp"
#include "support/sanitizer.hpp"

using namespace pgwake;
using namespace pgwake::test;

namespace {

// What a stranger would do: all slots of a directory are locked.
class locked_slots {
 public:
  explicit locked_slots(const std::string& directory) {
    for (int i = 0; i < 2; ++i) {
      const int fd =
          ::open((directory + "/slot-" + std::to_string(i)).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
      REQUIRE(fd >= 0);
      REQUIRE(::flock(fd, LOCK_EX | LOCK_NB) == 0);
      held_.push_back(fd);
    }
  }
  ~locked_slots() {
    for (const int fd : held_) ::close(fd);
  }
  locked_slots(const locked_slots&) = delete;
  locked_slots& operator=(const locked_slots&) = delete;

 private:
  std::vector<int> held_;
};

}  // namespace

TEST_CASE("C11: no stranger takes the slots: not in a directory that all may write, not through links") {
  client_rig r;
  r.hub().kill();
  temp_dir home;
  const std::string dir = home / "slots";
  const std::string other = home / "other";
  REQUIRE(::mkdir(other.c_str(), 0700) == 0);
  const auto own_connection = [&](const std::string& limit) {
    witness w(r.hub().socket(), r.conninfo(), r.values({{"fallback_limit", limit}, {"fallback_dir", dir}}));
    static_cast<void>(w.client().subscribe("c", 5s));
    return w.await_source(source::own, 5s);
  };
  SECTION("everybody may write to it") {
    REQUIRE(::mkdir(dir.c_str(), 0700) == 0);
    REQUIRE(::chmod(dir.c_str(), 01777) == 0);
    const locked_slots stranger(dir);
    CHECK(own_connection("2"));
  }
  SECTION("it is a symbolic link") {
    REQUIRE(::symlink(other.c_str(), dir.c_str()) == 0);
    const locked_slots stranger(other);
    CHECK(own_connection("2"));
  }
  SECTION("its files are links") {
    REQUIRE(::mkdir(dir.c_str(), 0700) == 0);
    const locked_slots stranger(other);
    REQUIRE(::symlink((other + "/slot-0").c_str(), (dir + "/slot-0").c_str()) == 0);
    REQUIRE(::link((other + "/slot-1").c_str(), (dir + "/slot-1").c_str()) == 0);
    CHECK(own_connection("2"));
  }
  SECTION("it belongs to somebody else") {
    if (::geteuid() != 0) return;
    REQUIRE(::mkdir(dir.c_str(), 0755) == 0);
    const locked_slots stranger(dir);
    REQUIRE(::chown(dir.c_str(), 65534, 65534) == 0);
    CHECK(own_connection("2"));
  }
  SECTION("a limit that nobody asked for needs no directory") {
    REQUIRE(::symlink("nowhere", dir.c_str()) == 0);
    REQUIRE(::symlink("nowhere", (dir + "-" + std::to_string(::geteuid())).c_str()) == 0);
    CHECK(own_connection("auto"));
    witness w(r.hub().socket(), r.conninfo(), r.values({{"fallback_limit", "2"}, {"fallback_dir", dir}}));
    static_cast<void>(w.client().subscribe("c", 5s));
    CHECK(eventually(5s, [&] {
      w.take();
      return std::string(w.client().state().reason).find("no slot for an own connection can be locked") !=
             std::string::npos;
    }));
  }
  SECTION("it is as it should be: the limit holds") {
    REQUIRE(::mkdir(dir.c_str(), 01770) == 0);
    const locked_slots colleagues(dir);
    CHECK_FALSE(own_connection("2"));
  }
}

TEST_CASE("C2: workers that have all the connections of the server leave one to the hub that comes back") {
  // Five are for ordinary roles, of which the superuser's session of this test has one.
  cluster server({.settings = {{"max_connections", "8"}, {"superuser_reserved_connections", "3"}}});
  server.exec("CREATE ROLE app LOGIN");
  const auto conninfo = server.conninfo("postgres", "app");
  hub_daemon hub({.database = conninfo});
  const temp_dir slots;
  const bool limited = GENERATE(false, true);
  std::list<witness> all;
  for (int i = 0; i < 8; ++i) {
    all.emplace_back(hub.socket(), conninfo,
                     client_values{{"application_name", "own"},
                                   {"return_delay", "200ms"},
                                   {"fallback_limit", limited ? "auto" : "0"},
                                   {"fallback_dir", slots / "slots"}});
    REQUIRE(all.back().client().subscribe("c", 10s));
  }
  hub.kill();
  if (limited) {
    // A quarter, as the hub has told.
    REQUIRE(eventually(10s, [&] { return server.census("own") == 1; }));
    CHECK_FALSE(eventually(1s, [&] { return server.census("own") > 1; }));
  } else {
    REQUIRE(eventually(20s, [&] { return server.census("own") == 4; }));
  }
  server.notify("c", "missed by some");
  hub.start();
  CHECK(hub.await_health(true, 15s));
  for (auto& w : all) {
    CHECK(w.await_source(source::hub, 30s));
    CHECK(w.await_gap("c"));
  }
  server.notify("c", "x");
  for (auto& w : all) CHECK(w.await_wake("c", "x"));
  CHECK(eventually(5s, [&] { return server.census("own") == 0; }));
}

TEST_CASE(
    "C11: fallback_limit bounds the own connections of all processes; the others are reminded, and one gap "
    "follows") {
  client_rig r;
  temp_dir slots;
  const client_values limited = {{"fallback_limit", "2"}, {"fallback_dir", slots / "slots"}};
  std::list<witness> all;
  for (int i = 0; i < 6; ++i) {
    all.emplace_back(r.hub().socket(), r.conninfo(), r.values(limited));
    REQUIRE(all.back().client().subscribe("c", 10s));
  }
  r.hub().kill();
  const auto holders = [&] {
    return std::count_if(all.begin(), all.end(), [](auto& w) { return w.client().state().own_slot != 0; });
  };
  const auto owners = [&] {
    return std::count_if(all.begin(), all.end(),
                         [](auto& w) { return w.client().state().source == PGWAKE_SOURCE_OWN; });
  };
  REQUIRE(eventually(10s, [&] { return owners() == 2 && holders() == 2; }));
  for (auto& w : all) {
    if (w.client().state().own_slot != 0) {
      CHECK(w.await_gap("c"));
      continue;
    }
    w.take();
    w.forget();
    CHECK(w.await([](const seen& e) { return e.durable() && e.source == PGWAKE_SOURCE_NONE; }));
    CHECK(time_of([&] { CHECK(w.client().subscribe("new", 10s)); }) < at_load(1s));
    CHECK_THAT(std::string(w.client().state().reason), Catch::Contains("fallback_limit"));
  }
  CHECK(r.own_census() == 2);

  SECTION("a slot is freed when its holder goes: the next one takes it") {
    const auto gone =
        std::find_if(all.begin(), all.end(), [](auto& w) { return w.client().state().own_slot != 0; });
    all.erase(gone);
    REQUIRE(eventually(10s, [&] { return owners() == 2; }));
    CHECK(eventually(5s, [&] { return r.own_census() == 2; }));  // once the one that went has left the server
  }
  SECTION("and by the kernel when a process dies") {
    all.clear();
    REQUIRE(eventually(10s, [&] { return r.own_census() == 0; }));
    const pid_t pid = ::fork();
    if (pid == 0) {
      std::list<witness> mine;
      for (int i = 0; i < 2; ++i) {
        mine.emplace_back(r.hub().socket(), r.conninfo(), r.values(limited));
        if (!mine.back().client().subscribe("c", 10s)) ::_exit(1);
      }
      ::pause();
    }
    REQUIRE(eventually(10s, [&] { return r.own_census() == 2; }));
    witness w(r.hub().socket(), r.conninfo(), r.values(limited));
    CHECK(w.client().subscribe("c", 10s));
    w.take(500ms);
    CHECK(w.client().state().source == PGWAKE_SOURCE_NONE);
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    CHECK(w.await_source(source::own, 10s));
  }
  SECTION("all are back when the hub is, each with one gap at most for what it missed") {
    r.hub().start();
    REQUIRE(r.hub().await_health());
    for (auto& w : all) {
      REQUIRE(w.await_source(source::hub));
      REQUIRE(w.await_gap("c"));
      r.notify("c", "x");
      REQUIRE(w.await_wake("c", "x"));
      CHECK(w.count([](const seen& e) { return e.channel == "c" && !e.gap.empty(); }) <= 1);
    }
    CHECK(eventually(5s, [&] { return r.own_census() == 0; }));
  }
}

TEST_CASE("case 10: fifty workers lose the hub when the server has twenty free slots") {
  client_rig r;
  rig::pg().exec("DROP ROLE IF EXISTS twenty; CREATE ROLE twenty LOGIN CONNECTION LIMIT 20");
  temp_dir slots;
  const bool limited = GENERATE(false, true);
  INFO((limited ? "with a limit of 10" : "without a limit"));
  client_values more = {{"return_delay", "2s"}, {"poll_interval", "500ms"}};
  if (limited) more.insert(more.end(), {{"fallback_limit", "10"}, {"fallback_dir", slots / "slots"}});
  std::list<witness> all;
  for (int i = 0; i < 50; ++i) {
    all.emplace_back(r.hub().socket(), rig::pg().conninfo(r.host().database(), "twenty"), r.values(more));
    REQUIRE(all.back().client().subscribe("c", 10s));
  }
  r.hub().kill();
  const int most = limited ? 10 : 20;
  REQUIRE(eventually(20s, [&] { return r.own_census() == most; }));
  const auto until = clock::now() + 2s;
  while (clock::now() < until) {
    CHECK(r.own_census() <= most);
    std::this_thread::sleep_for(50ms);
  }
  r.hub().start();
  REQUIRE(r.hub().await_health());
  const auto back = clock::now();
  for (auto& w : all) CHECK(w.await_source(source::hub, 15s));
  CHECK(clock::now() - back < at_load(10s));
  r.notify("c", "x");
  for (auto& w : all) CHECK(w.await_wake("c", "x"));
  CHECK(eventually(5s, [&] { return r.own_census() == 0; }));
}

namespace {

std::size_t resident() {
  std::ifstream in("/proc/self/statm");
  std::size_t total = 0;
  std::size_t pages = 0;
  in >> total >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

TEST_CASE("C10: what waits for the program is counted as it is resident, small events above all") {
  if (under_asan || under_tsan) {
    WARN("skipped: a sanitizer's allocator has an overhead of its own");
    return;
  }
  client_rig r;
  auto w = r.client({{"queue_max_bytes", "24MiB"}});
  REQUIRE(w.client().subscribe("c", 10s));
  const int size = GENERATE(8, 100, 2'000);
  const auto before = resident();
  for (std::uint64_t sent = 0; w.client().state().discarded == 0;) {
    const auto batch = size > 1'000 ? 2'000U : 20'000U;  // as much as the hub keeps for a worker
    r.host().sql("SELECT pg_notify('c', lpad(i::text, " + std::to_string(size) +
                 ", '0')) FROM generate_series(1, " + std::to_string(batch) + ") i");
    sent += batch;
    REQUIRE(eventually(60s, [&] {
      const auto s = w.client().state();
      return s.wakes + s.discarded >= sent;
    }));
  }
  const auto counted = w.client().state().waiting_bytes;
  const auto grown = resident() - before;
  INFO("payloads of " << size << " bytes: counted " << counted << ", grown by " << grown);
  CHECK(counted >= 23U << 20U);
  CHECK(grown < counted + counted / 2 + (4U << 20U));
}
