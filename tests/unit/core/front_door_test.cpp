#include <algorithm>
#include <catch2/catch.hpp>

#include "unit/core/engine_rig.hpp"
#include "unit/door/packets.hpp"

using namespace pgwake;
using namespace pgwake::test;
using namespace std::chrono_literals;

namespace {

// Clients of the front door of a whole engine.
struct door_rig : engine_rig {
  explicit door_rig(const pgwaked::engine::config& c = defaults()) : engine_rig(c) {}

  worker_id knock(const std::string& wanted = "shop") {
    const auto id = engine.joined_at_door({100, 33, 33}, 0x1234'5678'9abc'def0ULL + ++knocks, now);
    engine.bytes(id, startup(text("user") + text("app") + text("database") + text(wanted)), now);
    return id;
  }
  worker_id enter() {
    const auto id = knock();
    hear(id);
    return id;
  }
  void query(worker_id id, std::string_view words) { engine.bytes(id, message('Q', text(words)), now); }
  std::string ask(worker_id id, std::string_view words) {
    query(id, words);
    serve();
    return hear(id);
  }
  // What may be written to it now, written.
  std::string hear(worker_id id) {
    auto* box = engine.open_outbox(id);
    if (box == nullptr) return "GONE";
    std::vector<std::string_view> pieces;
    box->gather(pieces, 10'000, SIZE_MAX);
    std::string bytes;
    for (const auto piece : pieces) bytes += piece;
    engine.written(id, bytes.size(), now);
    return in_words(bytes);
  }
  void pass(millis time) {
    now += time;
    engine.tick(now, true);
  }
  std::uint64_t knocks = 0;
};

}  // namespace

TEST_CASE("P12: wakes wait while a transaction is open, answers do not") {
  door_rig r;
  r.serve();
  const auto id = r.enter();
  CHECK(r.ask(id, "LISTEN a") == "LISTEN (I)");
  r.engine.notification("a", "1", 7, r.now);
  CHECK(r.ask(id, "BEGIN") == "*a=1 BEGIN (T)");
  r.engine.notification("a", "2", 7, r.now);
  r.engine.notification("a", "", 7, r.now);
  CHECK(r.hear(id).empty());
  CHECK(r.ask(id, "SELECT 1") == "T [1] SELECT 1 (T)");
  CHECK(r.ask(id, "COMMIT") == "COMMIT (I) *a=2 *a=");
}

TEST_CASE("P13: nothing newer follows a gap before it was told") {
  door_rig r;
  r.serve();
  const auto id = r.enter();
  const auto told = r.enter();
  const auto idle = r.enter();
  CHECK(r.ask(id, "LISTEN a") == "LISTEN (I)");
  CHECK(r.ask(told, "LISTEN a; LISTEN \"pgwake.gap\"") == "LISTEN LISTEN (I)");
  r.engine.notification("a", "old", 7, r.now);
  r.lose();
  CHECK(r.hear(id) == "*a=old");
  CHECK(r.ask(id, "SELECT 1") == "T [1] SELECT 1 (I)");
  CHECK(r.engine.the_hub().worker_count() == 3);
  r.engine.notification("a", "overtakes LISTEN", 8, r.now);
  r.recover();
  r.engine.notification("a", "new", 8, r.now);
  CHECK(r.hear(id).empty());
  CHECK(r.hear(told) == "*a=old *pgwake.gap=reconnect *a=overtakes LISTEN *a=new");
  r.took();
  r.pass(1s);
  CHECK(r.hear(id) == "!57P01");
  CHECK(r.took() == engine_rig::strings{"worker dismissed 1 flush"});
  // P14
  CHECK(r.ask(idle, "SELECT 1") == "T [1] SELECT 1 (I)");
}

TEST_CASE("P13: a gap is told between transactions") {
  door_rig r;
  r.serve();
  const auto id = r.enter();
  r.ask(id, "LISTEN a; LISTEN \"pgwake.gap\"");
  CHECK(r.ask(id, "BEGIN") == "BEGIN (T)");
  r.engine.notification("a", "old", 7, r.now);
  r.lose();
  r.recover();
  r.engine.notification("a", "new", 8, r.now);
  CHECK(r.hear(id).empty());
  CHECK(r.ask(id, "COMMIT") == "COMMIT (I) *pgwake.gap=reconnect *a=old *a=new");
}

TEST_CASE("P4: a short outage is waited for, after a longer one nobody is kept") {
  auto c = engine_rig::defaults();
  c.front_door_grace = 5s;
  door_rig r(c);
  r.serve();
  const auto listens = r.enter();
  r.ask(listens, "LISTEN a");
  r.lose();
  const auto early = r.knock();
  CHECK(r.hear(early).empty());
  r.recover();
  CHECK(r.hear(early).substr(0, 1) == "R");
  r.pass(1s);
  CHECK(r.hear(listens) == "!57P01");
  const auto next = r.enter();
  r.ask(next, "LISTEN a");
  const auto asks = r.enter();
  r.lose();
  r.query(asks, "LISTEN b");
  const auto waits = r.knock();
  r.pass(5s);
  r.pass(1s);
  CHECK(r.hear(next) == "!57P01");
  CHECK(r.hear(asks) == "!57P01");
  CHECK(r.hear(waits) == "!57P03");
  CHECK(r.hear(r.knock()) == "!57P03");
}

TEST_CASE(
    "P13: who begins to LISTEN when an outage has lasted is closed at once, and free to listen elsewhere") {
  auto c = engine_rig::defaults();
  c.front_door_grace = 5s;
  c.limits.max_channels = 1;
  door_rig r(c);
  r.serve();
  const auto nothing = r.enter();
  const auto watches = r.enter();
  r.ask(watches, "LISTEN \"pgwake.gap\"");
  const auto talks = r.enter();
  const auto greedy = r.enter();
  r.lose();
  r.pass(7s);
  r.query(nothing, "LISTEN a");
  r.query(watches, "LISTEN a");
  r.query(greedy, "LISTEN a; LISTEN b");  // it is refused, and waits for nothing
  r.query(talks, "SELECT 1");
  r.pass(0s);
  CHECK(r.hear(nothing) == "!57P01");
  CHECK(r.hear(watches) == "!57P01");
  CHECK(r.hear(greedy) == "!53400 (I)");
  r.pass(2s);
  r.query(greedy, "SELECT 1");
  CHECK(r.hear(greedy) == "T [1] SELECT 1 (I)");
  CHECK(r.hear(talks) == "T [1] SELECT 1 (I)");
  CHECK(r.engine.door().counts().gap_closes == 0);
}

TEST_CASE("P4: a LISTEN that is served at the end of a long outage is not closed for it") {
  auto c = engine_rig::defaults();
  c.front_door_grace = 5s;
  door_rig r(c);
  r.serve();
  for (int i = 0; i < 200; ++i) r.enter();  // closes are spread over a second by their number
  const auto id = r.enter();
  r.lose();
  r.query(id, "LISTEN a");
  r.pass(5s);
  CHECK(r.hear(id).empty());  // its turn has not come
  r.serve();
  CHECK(r.hear(id) == "LISTEN (I)");
  r.pass(2s);
  CHECK(r.ask(id, "SELECT 1") == "T [1] SELECT 1 (I)");
}

TEST_CASE("P3: who is refused is told in answer to its startup packet") {
  auto c = engine_rig::defaults();
  c.allow = {{pgwaked::admission::who::uid, 7, {}}};
  door_rig strict(c);
  strict.serve();
  CHECK(strict.hear(strict.knock()) == "!28000");
  door_rig r;
  r.serve();
  CHECK(r.hear(r.knock("other")) == "!3D000");
  c = engine_rig::defaults();
  c.max_workers = 1;
  door_rig full(c);
  full.serve();
  full.enter();
  CHECK(full.hear(full.knock()) == "!57P03");
}

TEST_CASE("P8: a LISTEN that PostgreSQL refuses says why, and one beyond max_channels") {
  auto c = engine_rig::defaults();
  c.limits.max_channels = 1;
  door_rig r(c);
  r.serve();
  const auto id = r.enter();
  r.query(id, "LISTEN a");
  r.fail("22P05");
  CHECK(r.hear(id) == "!22P05 (I)");
  CHECK(r.ask(id, "LISTEN a") == "LISTEN (I)");
  CHECK(r.ask(id, "LISTEN b") == "!53400 (I)");
}

TEST_CASE("P6: CancelRequest by another connection ends the LISTEN that waits") {
  door_rig r;
  r.serve();
  const auto id = r.enter();
  r.lose();
  r.query(id, "LISTEN a");
  const auto secret = 0x1234'5678'9abc'def0ULL + 1;
  std::string key;
  for (int shift = 0; shift < 32; shift += 8) key += static_cast<char>(secret >> shift);
  const auto cancel = [&](const std::string& with) {
    const auto other = r.engine.joined_at_door({101, 33, 33}, 5, r.now);
    r.engine.bytes(other, int32_of(16) + int32_of(80'877'102) + int32_of((1U << 30U) + 1) + with, r.now);
    CHECK(r.hear(other).empty());
  };
  cancel("none");
  CHECK(r.hear(id).empty());
  cancel(key);
  CHECK(r.hear(id) == "!57014 (I)");
}

TEST_CASE("P18: a drain closes who listens one after another, and waits for that") {
  door_rig r;
  r.serve();
  const auto id = r.enter();
  r.ask(id, "LISTEN a");
  r.engine.drain(1s, r.now);
  CHECK(r.hear(r.knock()) == "!57P03");
  CHECK_FALSE(r.engine.drained());
  r.pass(800ms);
  CHECK(r.hear(id) == "!57P01");
  CHECK(r.engine.drained());
}

TEST_CASE("P2: a startup packet that does not come, and a message that does not end") {
  door_rig r;
  r.serve();
  const auto silent = r.engine.joined_at_door({101, 33, 33}, 5, r.now);
  const auto slow = r.enter();
  r.engine.bytes(slow, "Q", r.now);
  const auto waits = r.enter();
  r.lose();
  r.query(waits, "LISTEN a");
  r.engine.bytes(waits, "Q", r.now);
  r.pass(10s);
  CHECK(r.hear(silent) == "!08P01");
  CHECK(r.hear(slow) == "!08P01");
  CHECK(r.hear(waits).empty());
}

TEST_CASE(
    "P14: who listens to pgwake.gap alone is told of an outage of any length, and never closed for it") {
  auto c = engine_rig::defaults();
  c.front_door_grace = 5s;
  door_rig r(c);
  r.serve();
  const auto watches = r.enter();
  CHECK(r.ask(watches, "LISTEN \"pgwake.gap\"") == "LISTEN (I)");
  const auto both = r.enter();
  CHECK(r.ask(both, "LISTEN a; LISTEN \"pgwake.gap\"") == "LISTEN LISTEN (I)");
  r.lose();
  r.pass(5s);
  r.pass(1s);
  CHECK(r.hear(both) == "!57P01");
  CHECK(r.hear(watches).empty());
  r.query(watches, "SELECT 1");
  CHECK(r.hear(watches) == "T [1] SELECT 1 (I)");
  CHECK(r.engine.door().counts().gap_closes == 1);
  r.recover();
  CHECK(r.hear(watches) == "*pgwake.gap=reconnect");
  CHECK(r.engine.door().counts().gap_notices == 1);
}

TEST_CASE("P14: who ended its LISTENs in an outage and begins anew has missed nothing") {
  door_rig r;
  r.serve();
  const auto id = r.enter();
  r.ask(id, "LISTEN a");
  r.lose();
  CHECK(r.ask(id, "UNLISTEN a") == "UNLISTEN (I)");
  r.query(id, "LISTEN b");
  CHECK(r.hear(id).empty());
  r.recover();
  CHECK(r.hear(id) == "LISTEN (I)");
  r.pass(2s);
  r.engine.notification("b", "1", 7, r.now);
  CHECK(r.hear(id) == "*b=1");
  CHECK(r.engine.door().counts().gap_closes == 0);
}

TEST_CASE("P14: who has ended its LISTENs in an outage survives it") {
  door_rig r;
  r.serve();
  const auto id = r.enter();
  r.ask(id, "LISTEN a");
  r.lose();
  CHECK(r.ask(id, "UNLISTEN a") == "UNLISTEN (I)");
  r.recover();
  r.pass(2s);
  CHECK(r.ask(id, "SELECT 1") == "T [1] SELECT 1 (I)");
  CHECK(r.ask(id, "LISTEN b") == "LISTEN (I)");
  r.engine.notification("b", "1", 7, r.now);
  CHECK(r.hear(id) == "*b=1");
}

TEST_CASE(
    "P20, D8: what sessions keep counts with the outboxes, and the user that has the most loses its fullest") {
  auto c = engine_rig::defaults();
  c.limits.outbox_total_max_bytes = 3U << 20U;
  door_rig r(c);
  r.serve();
  const auto other = r.enter();
  const std::string statement = "SELECT '" + std::string(60'000, 'x') + "'";
  const auto prepare = [&](pgwaked::worker_id id, int count) {
    for (int i = 0; i < count; ++i)
      r.engine.bytes(id, message('P', text("s" + std::to_string(i)) + text(statement) + int16_of(0)), r.now);
    r.engine.bytes(id, message('S', ""), r.now);
    r.hear(id);
  };
  const auto few = r.enter();
  prepare(few, 2);
  CHECK(r.engine.the_hub().held_bytes() > 120'000);
  std::vector<pgwaked::worker_id> ids;
  for (int i = 0; i < 5; ++i) prepare(ids.emplace_back(r.enter()), 14);
  CHECK(r.engine.the_hub().held_bytes() <= 3U << 20U);
  const auto gone =
      std::count_if(ids.begin(), ids.end(), [&](pgwaked::worker_id id) { return r.hear(id) == "GONE"; });
  CHECK(gone == 2);
  CHECK(r.ask(few, "SELECT 1") == "T [1] SELECT 1 (I)");
  CHECK(r.ask(other, "SELECT 1") == "T [1] SELECT 1 (I)");
  for (const auto id : ids) r.engine.left(id, r.now);
  r.ask(few, "DEALLOCATE ALL");
  CHECK(r.engine.the_hub().held_bytes() == 0);
}

TEST_CASE("status tells what each session at the front door does") {
  auto c = engine_rig::defaults();
  c.front_door_grace = 5s;
  door_rig r(c);
  r.serve();
  const auto state = [&r](pgwaked::worker_id id) { return r.engine.door().view(id).first; };
  CHECK(state(4'711).empty());
  CHECK(state(r.engine.joined_at_door({101, 33, 33}, 5, r.now)) == "starting");
  const auto id = r.enter();
  CHECK(state(id) == "idle");
  r.ask(id, "BEGIN");
  CHECK(state(id) == "in transaction");
  r.ask(id, "no such command");
  CHECK(state(id) == "failed transaction");
  r.ask(id, "ROLLBACK; SET application_name = 'mailer'");
  r.query(id, "LISTEN a; LISTEN \"pgwake.gap\"");
  CHECK(r.engine.door().view(id) == std::pair<std::string_view, std::string>{"listening", "mailer"});
  r.serve();
  CHECK(state(id) == "idle");
  CHECK(r.engine.door().listeners() == 1);
  r.lose();
  CHECK(state(id) == "held");
  CHECK(state(r.knock()) == "waiting");
  r.recover();
  CHECK(state(id) == "idle");
}
