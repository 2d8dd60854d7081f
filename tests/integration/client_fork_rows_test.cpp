#include <sys/wait.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <atomic>
#include <filesystem>
#include <memory>
#include <random>

#include "integration/client_seat_rig.hpp"
#include "support/background.hpp"

using namespace pgwake;
using namespace pgwake::test;

// Forks in a row, as a pre-fork server makes them: in every order with commands, events and waits.
namespace {

constexpr int in_a_row = 100;

int open_sockets() {
  int count = 0;
  for (const auto& fd : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed;  // the one that lists them
    count += std::filesystem::read_symlink(fd, closed).string().rfind("socket:", 0) == 0 ? 1 : 0;
  }
  return count;
}

struct row {
  milliseconds all{0};
  milliseconds longest{0};
  int bad = 0;  // children that inherited a socket of the library, or were not told so
};

// `raw`: null for forks as they are without the library.
row fork_in_a_row(pgwake_handle* raw, int sockets_without) {
  row result;
  std::vector<pid_t> children;
  std::mt19937 random(3);
  for (int i = 0; i < in_a_row; ++i) {
    const auto began = clock::now();
    const pid_t pid = ::fork();
    if (pid == 0) {
      if (open_sockets() != sockets_without) ::_exit(1);
      ::_exit(raw == nullptr || pgwake_unsubscribe(raw, "c") == PGWAKE_FORKED ? 0 : 2);
    }
    const auto took = std::chrono::duration_cast<milliseconds>(clock::now() - began);
    result.all += took;
    result.longest = std::max(result.longest, took);
    children.push_back(pid);
    // Every other one while the child before it is still there.
    if (i % 2 == 0) continue;
    for (const pid_t child : std::exchange(children, {})) {
      int status = -1;
      ::waitpid(child, &status, 0);
      result.bad += status != 0 ? 1 : 0;
    }
    if (i % 4 == 3) ::usleep(random() % 3'000);
  }
  return result;
}

enum class reader { nobody, waits, comes_and_goes, polls };
enum class beside { nothing, events, commands };

void read_as(reader how, pgwake_handle* raw, const std::atomic<bool>& stop) {
  std::mt19937 random(4);
  if (how == reader::polls) pgwake_fd(raw);
  while (!stop && how != reader::nobody) {
    static_cast<void>(next_of(raw, how == reader::waits ? 50 : how == reader::polls ? 0 : 1));
    if (how != reader::waits) ::usleep(random() % 2'000);
  }
}

void busy_with(beside what, client_rig& r, pgwake_handle* raw, const std::atomic<bool>& stop) {
  while (!stop && what != beside::nothing) {
    if (what == beside::events) {
      r.notify("c", "x");
    } else {
      CHECK(pgwake_subscribe(raw, "d", 10'000) == PGWAKE_OK);
      CHECK(pgwake_unsubscribe(raw, "d") == PGWAKE_OK);
    }
  }
}

}  // namespace

TEST_CASE(
    "C8: forks in a row are quick, whoever waits and whatever else goes on, and children inherit nothing") {
  client_rig r;
  r.notify("c", "so that the publisher's connection is there before");
  const int sockets = open_sockets();
  const auto plain = fork_in_a_row(nullptr, sockets);
  auto w = r.client();
  auto* raw = w.client().raw();
  REQUIRE(w.client().subscribe("c", 10s));
  REQUIRE(w.await_source(source::hub));
  for (const auto how : {reader::nobody, reader::waits, reader::comes_and_goes, reader::polls}) {
    for (const auto what : {beside::nothing, beside::events, beside::commands}) {
      background reading([&](const auto& stop) { read_as(how, raw, stop); });
      background working([&](const auto& stop) { busy_with(what, r, raw, stop); });
      const auto forks = fork_in_a_row(raw, sockets);
      working.stop();
      reading.stop();
      INFO("reader " << static_cast<int>(how) << ", beside " << static_cast<int>(what) << ": longest "
                     << forks.longest.count() << " ms, all " << forks.all.count()
                     << " ms, without the library " << plain.all.count() << " ms");
      CHECK(forks.bad == 0);
      CHECK(forks.longest <
            std::min(at_load(1s), milliseconds(1'900)));  // one that gives up waiting takes 2 s
      CHECK(forks.all < at_load(in_a_row * 10ms) + 4 * plain.all);
    }
  }
  CHECK(w.client().state().hub_connects == 1);
  CHECK(w.client().state().gaps == 0);
}

TEST_CASE("C8: a handle forks right after it was opened, and again: no child holds on to the hub") {
  client_rig r;
  const auto workers = [&] {
    const auto status = run({pgwaked_command({"status", "--socket", r.hub().socket(), "--json"})});
    return count_of(status.out, "\"dialect\"");
  };
  std::vector<pid_t> children;
  for (int round = 0; round < 5; ++round) {
    auto w = std::make_unique<witness>(r.client());
    for (int i = 0; i < 8; ++i) {
      const pid_t pid = ::fork();
      if (pid == 0) {
        ::alarm(60);
        for (;;) ::pause();
      }
      children.push_back(pid);
    }
    REQUIRE(w->client().subscribe("c", 10s));
  }
  CHECK(eventually(5s, [&] { return workers() == 0; }));
  for (const pid_t pid : children) ::kill(pid, SIGKILL);
  for (const pid_t pid : children) ::waitpid(pid, nullptr, 0);
}

TEST_CASE("C8: forks in a row while the own connection cannot be made wait for it once") {
  client_rig r;
  r.hub().kill();
  fault_proxy proxy(rig::pg());
  proxy.hang_connects();
  witness w(r.hub().socket(), proxy.conninfo(r.host().database()), r.values({{"connect_timeout", "30s"}}));
  static_cast<void>(w.client().subscribe("c", 100ms));
  const auto forks = fork_in_a_row(nullptr, -1);
  CHECK(forks.longest < at_load(1s));
  CHECK(forks.all < at_load(in_a_row * 25ms));  // 50 ms each if each waited
}
