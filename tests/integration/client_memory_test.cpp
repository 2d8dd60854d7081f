#include <catch2/catch.hpp>

#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

#include "integration/client_rig.hpp"

using namespace pgwake;
using namespace pgwake::test;

// This program's allocator is the library's too. While `scarce`, it fails now and then on every thread but
// the main one: here that is the library's.
namespace {

std::atomic<bool> scarce = false;
std::atomic<unsigned> failed = 0;
const auto main_thread = std::this_thread::get_id();

void* allocate(std::size_t size) {
  static thread_local unsigned count = 0;
  if (scarce.load(std::memory_order_relaxed) && std::this_thread::get_id() != main_thread &&
      ++count % 97 == 0) {
    ++failed;
    return nullptr;
  }
  return std::malloc(size == 0 ? 1 : size);
}

}  // namespace

void* operator new(std::size_t size) {
  if (void* p = allocate(size)) return p;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

TEST_CASE("C9: memory is scarce: nothing crashes, subscriptions live on, and what was missed is announced") {
  client_rig r;
  auto w = r.client();
  const std::vector<std::string> channels = {"a", "b", "c"};
  REQUIRE(w.client().subscribe(channels, 10s).empty());
  ledger books;
  int n = 0;
  for (int round = 0; round < 5; ++round) {
    scarce = true;
    const auto until = clock::now() + 1s;
    while (clock::now() < until) {
      ++n;
      for (const auto& c : channels) r.notify(c, std::to_string(n));
      w.client().unsubscribe("churn");
      static_cast<void>(w.client().subscribe("churn", 300ms));
      w.take();
      books.take(w.events());
      w.forget();
    }
    scarce = false;
    REQUIRE(w.client().subscribe("churn", 10s));
    r.notify("churn", std::to_string(2 * round + 1));
    REQUIRE(w.await_wake("churn", std::to_string(2 * round + 1)));
    w.take();
    books.take(w.events());
    w.forget();
    ++n;
    for (const auto& c : channels) {
      REQUIRE(eventually(10s, [&] {
        r.notify(c, std::to_string(n));
        w.take(50ms);
        const bool all =
            w.count([&](const seen& e) { return e.channel == c && e.payload == std::to_string(n); }) > 0;
        return all;
      }));
    }
    // Asked for again and again above: once is enough for the books. The last one is behind them all.
    r.notify("churn", std::to_string(2 * round + 2));
    REQUIRE(w.await_wake("churn", std::to_string(2 * round + 2)));
    std::map<std::string, bool> had;
    for (const auto& e : w.events())
      if (!e.payload || !std::exchange(had[e.channel + *e.payload], true)) books.take(e);
    w.forget();
  }
  CHECK(failed > 0);
  for (const auto& f : books.faults()) FAIL_CHECK(f);
  WARN(failed << " allocations failed, " << books.gaps() << " gaps");
}

// A thread of the application that waits for an event runs the library's loop itself.
TEST_CASE(
    "C9: memory is scarce in the thread that waits: nothing crashes, and what was missed is announced") {
  client_rig r;
  pgwake_options* options = pgwake_options_new();
  pgwake_options_ignore_environment(options);
  auto values = r.values();
  values.emplace_back("socket", r.hub().socket());
  values.emplace_back("database", r.conninfo());
  for (const auto& [name, value] : values)
    REQUIRE(pgwake_options_set(options, name.c_str(), value.c_str()) == 0);
  pgwake_handle* handle = nullptr;
  REQUIRE(pgwake_open(&handle, options) == PGWAKE_OK);
  pgwake_options_free(options);
  REQUIRE(pgwake_subscribe(handle, "a", 10'000) == PGWAKE_OK);
  std::atomic<int> last = 0;
  std::atomic<int> gaps = 0;
  std::atomic<int> missed = 0;
  std::atomic<bool> done = false;
  std::thread waiting([&] {
    bool gap = false;
    while (!done) {
      const pgwake_event* e = nullptr;
      if (pgwake_next(handle, &e, 100) != PGWAKE_OK || e->kind != PGWAKE_EVENT_WAKE) continue;
      if (e->payload == nullptr) {
        gap = true;
        ++gaps;
        continue;
      }
      const int n = std::atoi(e->payload);
      if (n != last + 1 && !(gap && n > last)) ++missed;
      gap = false;
      last = n;
    }
  });
  int n = 0;
  scarce = true;
  for (const auto until = clock::now() + 4s; clock::now() < until;) r.notify("a", std::to_string(++n));
  scarce = false;
  CHECK(eventually(20s, [&] {
    r.notify("a", std::to_string(++n));
    return eventually(100ms, [&] { return last == n; });
  }));
  done = true;
  waiting.join();
  pgwake_close(handle);
  CHECK(missed == 0);
  WARN(n << " numbers, " << gaps << " gaps");
}
