#include <unistd.h>
#include <catch2/catch.hpp>

#include <atomic>
#include <list>

#include "integration/client_rig.hpp"
#include "support/background.hpp"

using namespace pgwake;
using namespace pgwake::test;

namespace {

const std::vector<std::string> channels = {"a", "b", "c", "d", "e"};

// Numbers on every channel, several in one transaction, by one publisher, as fast as it goes (or paced).
class publisher {
 public:
  explicit publisher(rig& r, milliseconds pause = milliseconds(1))
      : thread_([this, &r, pause](const auto& stop) {
          auto to = r.publisher();
          for (int n = 1; !stop; ++n) {
            std::string sql = "BEGIN;";
            for (const auto& c : channels)
              sql += "NOTIFY " + c + ", '" + std::to_string(n) + "';NOTIFY " + c + ";";
            to.exec(sql + "COMMIT");
            last_ = n;
            std::this_thread::sleep_for(pause);
          }
        }) {}
  int last() const { return last_; }
  int stop() {
    thread_.stop();
    return last_;
  }

 private:
  std::atomic<int> last_ = 0;
  background thread_;
};

// All numbers up to the last, each once and in order, no gap.
void check_exact(witness& w, ledger& books, int last, std::size_t gaps_before) {
  const bool all = eventually(15s, [&] {
    w.take();
    books.take(w.events());
    w.forget();
    return std::all_of(channels.begin(), channels.end(),
                       [&](const auto& c) { return books.last(c) == last; });
  });
  for (const auto& c : channels) CHECK(books.last(c) == last);
  REQUIRE(all);
  for (const auto& f : books.faults()) FAIL_CHECK(f);
  CHECK(books.gaps() == gaps_before);
}

}  // namespace

TEST_CASE(
    "C6 case 44: the return to the hub under load loses nothing, doubles nothing and announces no gap") {
  client_rig r;
  auto w = r.client();
  REQUIRE(w.client().subscribe(channels, 10s).empty());
  r.hub().kill();
  REQUIRE(w.await_source(source::own));
  w.forget();
  ledger books;
  publisher p(r.host());
  constexpr int rounds = 2;
  for (int round = 0; round < rounds; ++round) {
    r.hub().start();
    REQUIRE(eventually(20s, [&] {
      w.take();
      return w.client().state().handovers == static_cast<std::uint64_t>(round + 1);
    }));
    REQUIRE(w.await_source(source::hub));
    books.take(w.events());
    w.forget();
    const auto gaps = books.gaps();
    CHECK(gaps == static_cast<std::size_t>(round) * channels.size());
    r.hub().kill();
    REQUIRE(w.await_source(source::own));
  }
  // What was committed before the own connection listened lies in its gap: the last one must be younger.
  const int before = p.last();
  REQUIRE(eventually(20s, [&] { return p.last() >= before + 2; }));
  const int last = p.stop();
  check_exact(w, books, last, rounds * channels.size());
}

TEST_CASE("C7: a planned restart of the hub under load is exact in both directions, for every worker") {
  client_rig r;
  std::list<witness> all;
  for (int i = 0; i < 8; ++i) {
    all.emplace_back(r.hub().socket(), r.conninfo(), r.values());
    REQUIRE(all.back().client().subscribe(channels, 10s).empty());
  }
  publisher p(r.host(), 3ms);
  REQUIRE(eventually(5s, [&] { return p.last() > 20; }));
  for (int round = 1; round <= 2; ++round) {
    CHECK(r.hub().stop() == 0);
    for (auto& w : all) REQUIRE(w.await_source(source::own));
    CHECK(r.own_census() == 8);
    r.hub().start();
    for (auto& w : all) REQUIRE(w.await_source(source::hub));
    for (auto& w : all) CHECK(w.client().state().handovers == static_cast<std::uint64_t>(2 * round));
  }
  const int last = p.stop();
  for (auto& w : all) {
    ledger books;
    check_exact(w, books, last, 0);
    CHECK(w.client().state().falls == 0);
  }
  CHECK(eventually(5s, [&] { return r.own_census() == 0; }));
}

TEST_CASE("C6: a broken hand-over loses nothing and doubles nothing") {
  client_rig r;
  // The fence takes a while, so that there is a midst.
  fault_proxy proxy(rig::pg());
  proxy.hold_query("NOTIFY \"pgwake.fence\"", 300ms, -1);
  auto w = r.client({{"handover_deadline", "1s"}, {"database", proxy.conninfo(r.host().database())}});
  REQUIRE(w.client().subscribe(channels, 10s).empty());
  r.hub().kill();
  REQUIRE(w.await_source(source::own));
  w.forget();
  ledger books;
  publisher p(r.host());
  r.hub().start();
  REQUIRE(r.hub().await_health());
  const auto in_the_midst = [&] {
    return eventually(10s, [&] { return w.client().state().handing_over != 0; });
  };
  SECTION("the hub stands still: the fence does not come by in time, the old side goes on without a gap") {
    REQUIRE(in_the_midst());
    r.hub().child().signal(SIGSTOP);
    w.take(1'500ms);
    r.hub().child().signal(SIGCONT);
    REQUIRE(w.await_source(source::hub, 30s));
    check_exact(w, books, p.stop(), 0);
  }
  SECTION("the hub dies in the midst of it, again and again") {
    for (int i = 0; i < 3; ++i) {
      REQUIRE(in_the_midst());
      r.hub().kill();
      w.take(50ms);
      r.hub().start();
      REQUIRE(r.hub().await_health());
    }
    REQUIRE(w.await_source(source::hub, 30s));
    const int last = p.stop();
    REQUIRE(eventually(15s, [&] {
      w.take();
      books.take(w.events());
      w.forget();
      return books.last("a") == last;
    }));
    for (const auto& f : books.faults()) FAIL_CHECK(f);
  }
  SECTION("the own session dies in the midst of it: a gap, and nothing twice") {
    for (int i = 0; i < 3; ++i) {
      REQUIRE(in_the_midst());
      r.terminate_own();
      w.take(100ms);
      r.hub().kill();
      REQUIRE(w.await_source(source::own));
      r.hub().start();
      REQUIRE(r.hub().await_health());
    }
    REQUIRE(w.await_source(source::hub, 30s));
    const int last = p.stop();
    REQUIRE(eventually(15s, [&] {
      w.take();
      books.take(w.events());
      w.forget();
      return books.last("a") == last;
    }));
    for (const auto& f : books.faults()) FAIL_CHECK(f);
  }
}

TEST_CASE(
    "C6: the channels that were subscribed and unsubscribed during a hand-over stand as the program said "
    "last") {
  client_rig r;
  auto w = r.client();
  REQUIRE(w.client().subscribe(channels, 10s).empty());
  background churn([&](const auto& stop) {
    for (int i = 0; !stop; ++i) {
      const auto c = "churn" + std::to_string(i % 7);
      if (i % 3 == 2)
        w.client().unsubscribe(c);
      else
        CHECK(w.client().subscribe(c, 10s));
    }
  });
  for (int i = 0; i < 2; ++i) {
    CHECK(r.hub().stop() == 0);
    REQUIRE(w.await_source(source::own, 20s));
    r.hub().start();
    REQUIRE(w.await_source(source::hub, 20s));
  }
  churn.stop();
  for (int i = 0; i < 7; ++i) w.client().unsubscribe("churn" + std::to_string(i));
  REQUIRE(w.client().subscribe("churn3", 10s));
  w.forget();
  for (int i = 0; i < 7; ++i) r.notify("churn" + std::to_string(i), "x");
  REQUIRE(w.await_wake("churn3", "x"));
  r.notify("a", "end");
  REQUIRE(w.await_wake("a", "end"));
  CHECK(w.count([](const seen& e) { return e.wake(); }) == 2);
}

TEST_CASE("C6: reattach=never stays on its own once it has left the hub") {
  client_rig r;
  auto w = r.client({{"reattach", "never"}});
  REQUIRE(w.client().subscribe("c", 10s));
  CHECK(w.client().state().source == PGWAKE_SOURCE_HUB);
  r.hub().kill();
  REQUIRE(w.await_source(source::own));
  r.hub().start();
  REQUIRE(r.hub().await_health());
  w.take(1s);
  CHECK(w.client().state().source == PGWAKE_SOURCE_OWN);
  r.terminate_own();
  REQUIRE(w.await([](const seen& e) { return e.gap == "reconnect"; }));
  CHECK(w.client().state().source == PGWAKE_SOURCE_OWN);
}

TEST_CASE("C6: a hub of another server is not returned to") {
  client_rig r;
  cluster other({.own_system_id = true});
  other.exec("CREATE DATABASE \"" + r.host().database() + "\"");
  witness w(r.hub().socket(), other.conninfo(r.host().database()), r.values());
  REQUIRE(w.client().subscribe("c", 10s));
  r.hub().kill();
  REQUIRE(w.await_source(source::own));
  r.hub().start();
  REQUIRE(r.hub().await_health());
  w.take(1'500ms);  // longer than return_delay_max
  CHECK(w.client().state().source == PGWAKE_SOURCE_OWN);
  other.notify("c", "x", r.host().database());
  CHECK(w.await_wake("c", "x"));
}
