#include <catch2/catch.hpp>

#include "unit/core/engine_rig.hpp"

using namespace pgwake;
using namespace pgwaked;
using namespace std::chrono_literals;
using Catch::Contains;
using pgwake::test::engine_rig;
using pgwake::test::framed;
using strings = std::vector<std::string>;

namespace {

// With as many workers of a user as a test wants.
struct rig : engine_rig {
  explicit rig(const engine::config& c = defaults()) : engine_rig(c) { serve(); }

  worker_id join_as(std::uint32_t uid, const std::string& more = "") {
    const auto id = engine.joined({1, uid, uid}, "u" + std::to_string(++joined), now);
    say(id, R"({"t":"hello","v":1)" + more + "}");
    return id;
  }
  static std::string many(const char* json, int count) {
    std::string out;
    for (; count > 0; --count) out += framed(json);
    return out;
  }
  std::size_t unsent(worker_id id) { return engine.open_outbox(id)->memory(); }
};

constexpr const char* ping_json = R"({"t":"ping","id":1})";

}  // namespace

TEST_CASE("D7: the bound of unsent answers is looked at before each frame, however many came in one write") {
  auto c = engine_rig::defaults();
  c.limits.control_max_bytes = 2'000;
  rig r(c);
  const auto a = r.join_as(33);
  r.read(a);
  r.bytes(a, rig::many(ping_json, 600));
  CHECK(r.unsent(a) > 1'500);
  CHECK(r.unsent(a) < 2'500);
  CHECK_FALSE(r.engine.may_read(a));
  std::size_t pongs = 0;
  for (auto got = r.read(a); !got.empty(); got = r.read(a)) pongs += got.size();
  CHECK(pongs == 600);
  CHECK(r.engine.may_read(a));
}

TEST_CASE("fair: a turn takes so many frames; the rest waits, and PostgreSQL has its say in between") {
  rig r;
  const auto a = r.join_as(33);
  r.engine.turn(r.now);
  const auto before = r.engine.counts().frames;
  r.engine.bytes(a, rig::many(R"({"t":"unsub","q":"c"})", 1'000), r.now);
  CHECK(r.engine.counts().frames - before <= 64);
  CHECK(r.engine.busy());
  CHECK_FALSE(r.engine.may_read(a));
  const auto at_once = r.engine.counts().frames;
  r.engine.turn(r.now);
  CHECK(r.engine.counts().frames - at_once <= 140);
  int turns = 0;
  for (; r.engine.busy(); ++turns) r.engine.turn(r.now);
  CHECK(turns < 20);
  CHECK(r.engine.counts().frames - before == 1'000);
  CHECK(r.engine.readable() == std::vector<worker_id>{a});
}

TEST_CASE("fair: by user before by connection: a crowd's frames hold back nobody else's") {
  rig r;
  std::vector<worker_id> crowd;
  for (int i = 0; i < 500; ++i) crowd.push_back(r.join_as(33));
  const auto other = r.join_as(34);
  r.read(other);
  r.engine.turn(r.now);
  for (const auto id : crowd) r.engine.bytes(id, rig::many(ping_json, 50), r.now);
  REQUIRE(r.engine.busy());
  r.engine.bytes(other, rig::many(ping_json, 8), r.now);
  r.engine.turn(r.now);
  CHECK(r.engine.members().at(other).taken == 9);  // its hello was the first
  std::size_t served = 0;
  for (const auto id : crowd) served += r.engine.members().at(id).taken > 1 ? 1 : 0;
  CHECK(served < 40);
}

TEST_CASE("fair: workers of one user take turns, too") {
  rig r;
  const auto greedy = r.join_as(33);
  const auto modest = r.join_as(33);
  r.engine.turn(r.now);
  r.engine.bytes(greedy, rig::many(ping_json, 1'000), r.now);
  r.engine.bytes(modest, framed(ping_json), r.now);
  CHECK(r.engine.members().at(modest).taken == 1);
  r.engine.turn(r.now);
  CHECK(r.engine.members().at(modest).taken == 2);
}

TEST_CASE("fair: who leaves while its frames wait is simply not found") {
  rig r;
  const auto a = r.join_as(33);
  r.engine.turn(r.now);
  r.engine.bytes(a, rig::many(ping_json, 1'000), r.now);
  r.engine.left(a, r.now);
  while (r.engine.busy()) r.engine.turn(r.now);
  CHECK(r.engine.members().empty());
}

TEST_CASE("stats: one answer for all who wait, one at a time, and one in an interval") {
  rig r;
  const auto a = r.join_as(33);
  const auto b = r.join_as(33);
  const auto root = r.join_as(0);
  for (const auto id : {a, b, root}) r.read(id);
  r.took();
  r.bytes(a, rig::many(R"({"t":"stats"})", 50));
  r.bytes(b, rig::many(R"({"t":"stats"})", 50));
  r.bytes(root, rig::many(R"({"t":"stats"})", 50));
  CHECK(r.took() == strings{"stats of 33 " + std::to_string(a)});
  r.engine.answer_stats(R"({"t":"stats"})", r.now);
  CHECK(r.read(a) == strings{"stats"});
  CHECK(r.took() == strings{"stats of all " + std::to_string(root)});
  r.engine.answer_stats(R"({"t":"stats"})", r.now);
  CHECK(r.took().empty());
  CHECK(r.engine.deadline() == r.now + 250ms);
  r.now += 250ms;
  r.engine.tick(r.now, true);
  CHECK(r.took() == strings{"stats of 33 " + std::to_string(a) + " " + std::to_string(b)});
  r.now += 100ms;  // it took so long: four times that is the rest
  r.engine.answer_stats(R"({"t":"stats"})", r.now);
  CHECK(r.read(a) == strings{"stats"});
  CHECK(r.read(b) == strings{"stats"});
  CHECK(r.took().empty());
  r.say(b, R"({"t":"stats"})");
  r.now += 399ms;
  r.engine.tick(r.now, true);
  CHECK(r.took().empty());
  r.now += 1ms;
  r.engine.tick(r.now, true);
  CHECK(r.took() == strings{"stats of 33 " + std::to_string(b)});
}

TEST_CASE("K4: workers of one user; root and the hub's own user are not held to the share of others") {
  auto c = engine_rig::defaults();
  c.max_workers = 10;
  c.workers_of_user = {2, 10};
  rig r(c);
  r.join_as(33);
  r.join_as(33);
  const auto refused = r.engine.refusal({1, 33, 33});
  REQUIRE(refused);
  CHECK(refused->why == code::limit);
  CHECK_THAT(refused->reason, Contains("uid 33") && Contains("max_workers_per_user"));
  CHECK_FALSE(r.engine.refusal({1, 34, 33}));
  for (int i = 0; i < 5; ++i) r.join_as(0);
  CHECK_FALSE(r.engine.refusal({1, 0, 0}));
}

TEST_CASE("K4: a full hub has places for operators, who are no workers") {
  auto c = engine_rig::defaults();
  c.max_workers = 2;
  c.own_uid = 7;
  rig r(c);
  r.join_as(33);
  r.join_as(33);
  CHECK(r.engine.refusal({1, 33, 33}));
  for (const std::uint32_t uid : {0U, 7U}) {
    REQUIRE_FALSE(r.engine.refusal({1, uid, 0}));
    const auto operates = r.join_as(uid, R"(,"operator":true)");
    CHECK(r.read(operates).front() == "welcome v1 shop");
    r.took();
    r.say(operates, R"({"t":"stats"})");
    r.engine.answer_stats(R"({"t":"stats"})", r.now);
    CHECK(r.read(operates) == strings{"stats"});
    r.sub(operates, "c");
    CHECK(r.read(operates) == strings{"nack c forbidden"});
    r.engine.left(operates, r.now);
    r.now += 1s;
    r.engine.tick(r.now, true);
    r.took();
  }
  SECTION("a worker of theirs is refused like any") {
    const auto worker = r.join_as(7);
    CHECK(r.took() == strings{"worker refused " + std::to_string(worker) + " flush"});
    CHECK(r.read(worker) == strings{"bye limit"});
    const auto v0 = r.engine.joined({1, 7, 7}, "v0", r.now);
    r.sub(v0, "c");
    CHECK(r.read(v0) == strings{"bye limit"});
  }
  SECTION("who says nothing is refused in time") {
    const auto silent = r.engine.joined({1, 7, 7}, "silent", r.now);
    r.now += 499ms;
    r.engine.tick(r.now, true);
    CHECK(r.read(silent).empty());
    r.now += 1ms;
    r.engine.tick(r.now, true);
    CHECK(r.read(silent) == strings{"bye limit"});
  }
  SECTION("there are only so many") {
    int let_in = 0;
    for (; let_in < 100 && !r.engine.refusal({1, 0, 0}); ++let_in) r.join_as(0, R"(,"operator":true)");
    CHECK(let_in == 8);
  }
  CHECK(r.engine.workers() == 2);
  CHECK(r.engine.the_hub().counted().workers == 2);
}

TEST_CASE("K4: `operator` from anybody else means nothing") {
  rig r;
  const auto a = r.join_as(33, R"(,"operator":true)");
  r.sub(a, "c");
  r.serve();
  CHECK(r.read(a).back() == "ack c");
  CHECK(r.engine.workers() == 1);
}

TEST_CASE("memory: large frames that nobody finishes are bounded by user") {
  rig r;
  const std::string begun = std::string("\0\0\xEA\x60", 4) + std::string(50'000, ' ');
  std::vector<worker_id> all;
  for (int i = 0; i < 300; ++i) {
    all.push_back(r.join_as(33));
    r.bytes(all.back(), begun);
  }
  std::size_t left = 0;
  for (const auto& [id, m] : r.engine.members()) left += m.dismissed ? 0 : m.protocol.held();
  CHECK(left <= 8U << 20U);
  const auto other = r.join_as(34);
  r.bytes(other, begun);
  CHECK_FALSE(r.engine.members().at(other).dismissed);
}
