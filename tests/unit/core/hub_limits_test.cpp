#include <catch2/catch.hpp>
#include <numeric>

#include "unit/core/hub_rig.hpp"

using namespace pgwake;
using namespace pgwaked;
using namespace std::chrono_literals;
using pgwake::test::hub_rig;
using strings = std::vector<std::string>;

namespace {

hub::limits small() {
  hub::limits l;
  l.outbox_max_bytes = 1000;
  l.outbox_max_frames = 5;
  l.outbox_total_max_bytes = 10'000;
  l.control_max_bytes = 500;
  l.max_channels = 3;
  return l;
}

std::size_t sum_of_outboxes(const hub& h) {
  const auto views = h.workers();
  return std::accumulate(views.begin(), views.end(), std::size_t{0},
                         [](std::size_t n, const auto& v) { return n + v.bytes; });
}

}  // namespace

TEST_CASE("D3: who takes nothing is evicted a second after it went over, and nobody else notices") {
  hub_rig r(small());
  const auto slow = r.join();
  const auto good = r.join();
  r.active(slow, "c");
  r.active(good, "c");
  strings got;
  for (int i = 0; i < 6; ++i) {
    r.hub.notification("c", std::to_string(i), 1, r.now);
    for (auto& f : r.read(good)) got.push_back(f);
  }
  CHECK(r.hub.deadline() == r.now + 1s);
  r.now += 999ms;
  r.hub.tick(r.now);
  CHECK(r.asked().empty());
  r.now += 1ms;
  r.hub.tick(r.now);
  CHECK(r.asked() == strings{"evict " + std::to_string(slow) + " slow"});
  CHECK(r.peek(slow) == strings{"GONE"});
  CHECK(got.size() == 6);
  CHECK(r.hub.counted().evicted == 1);
  r.hub.notification("c", "6", 1, r.now);
  CHECK(r.read(good) == strings{"wake c =6 by 1"});
}

TEST_CASE("D3: a burst is no reason: who takes bytes has ten seconds") {
  hub_rig r(small());
  const auto a = r.join();
  r.active(a, "c");
  for (int i = 0; i < 12; ++i) r.hub.notification("c", "x", 1, r.now);
  const auto begun = r.now;
  SECTION("and is none too many when it is below in time") {
    for (int i = 0; i < 8; ++i) {
      r.now += 1s;
      r.hub.written(a, 10);
      r.hub.tick(r.now);
    }
    r.read(a);
    r.now += 1min;
    r.hub.tick(r.now);
    CHECK(r.asked().empty());
    r.hub.notification("c", "x", 1, r.now);
    CHECK(r.read(a).back() == "wake c =x by 1");
  }
  SECTION("but not more") {
    strings asked;
    while (asked.empty() && r.now < begun + 1min) {
      r.now += 500ms;
      r.hub.written(a, 1);
      r.hub.tick(r.now);
      asked = r.asked();
    }
    CHECK(r.now == begun + 10s);
    CHECK(asked == strings{"evict " + std::to_string(a) + " slow", "unwant c"});
  }
}

TEST_CASE("D3: past four times its bound it goes at once, and with it what it held") {
  hub_rig r(small());
  const auto slow = r.join();
  r.active(slow, "c");
  for (int i = 0; i < 4; ++i) {
    CHECK(r.asked().empty());
    r.hub.notification("c", std::string(1'000, 'x'), 1, r.now);
  }
  CHECK(r.asked() == strings{"evict " + std::to_string(slow) + " slow", "unwant c"});
  CHECK(r.hub.held_bytes() == 0);
  CHECK(r.hub.worker_count() == 0);
  r.now += 1min;
  r.hub.tick(r.now);
}

TEST_CASE("D3: only ephemeral frames count: durable wakes, gaps and answers never evict") {
  auto limits = small();
  limits.outbox_total_max_bytes = 1'000'000;
  hub_rig r(limits);
  const auto a = r.join();
  r.active(a, "c");
  for (int i = 0; i < 100; ++i) {
    r.hub.notification("c", "", i, r.now);
    r.hub.answer(a, pong{1}, r.now);
    r.hub.subscribe(a, "c", r.now);
  }
  CHECK(r.asked().empty());
  CHECK(r.peek(a).size() > 200);
}

TEST_CASE("D8: all outboxes together: the fullest goes first") {
  auto limits = small();
  limits.outbox_max_bytes = 1'000'000;
  limits.outbox_max_frames = 1'000'000;
  hub_rig r(limits);
  const auto a = r.join();
  const auto b = r.join();
  r.active(a, "a");
  r.active(b, "b");
  r.hub.notification("a", std::string(7000, 'x'), 1, r.now);
  r.hub.notification("b", std::string(2000, 'x'), 1, r.now);
  CHECK(r.asked().empty());
  r.hub.notification("b", std::string(2000, 'x'), 1, r.now);
  CHECK(r.asked() == strings{"evict " + std::to_string(a) + " fullest", "unwant a"});
  CHECK(r.hub.held_bytes() == sum_of_outboxes(r.hub));
  CHECK(r.peek(b).size() == 2);
}

TEST_CASE("D8: by user: one user's many connections go before another's fuller ones") {
  auto limits = small();
  limits.outbox_max_bytes = 1'000'000;
  limits.outbox_max_frames = 1'000'000;
  limits.outbox_total_max_bytes = 50'000;
  hub_rig r(limits);
  std::vector<worker_id> innocent;
  for (int i = 0; i < 2; ++i) {
    innocent.push_back(r.hub.join(1, r.now, {34, false}));
    r.active(innocent.back(), "big");
  }
  r.hub.notification("big", std::string(7'000, 'x'), 1, r.now);
  for (int i = 0; i < 40; ++i) r.active(r.hub.join(1, r.now, {33, false}), "small");
  for (int i = 0; i < 20; ++i) r.hub.notification("small", std::string(900, 'x'), 1, r.now);
  CHECK(r.hub.held_bytes() <= 50'000);
  for (const auto id : innocent) CHECK(r.read(id).size() == 1);
  for (const auto& asked : r.asked()) CHECK(asked.ends_with(" fullest"));
}

TEST_CASE("memory: what is counted is what it takes: frames of some bytes take more than their bytes") {
  hub_rig r;
  const auto a = r.join();
  for (int i = 0; i < 100; ++i) r.hub.answer(a, pong{1}, r.now);
  CHECK(r.hub.held_bytes() >= 100 * (28 + sizeof(std::string) + 4 * sizeof(void*) + 24));
}

TEST_CASE("D8: the sum is the sum, whatever happened") {
  hub_rig r(small());
  const auto a = r.join();
  const auto b = r.join(0);
  r.active(a, "q_c");
  r.active(b, "q_c");
  const auto check = [&] { REQUIRE(r.hub.held_bytes() == sum_of_outboxes(r.hub)); };
  for (int i = 0; i < 4; ++i) {
    r.hub.notification("q_c", "x", i, r.now), check();
    r.hub.notification("q_c", "", i, r.now), check();
    r.hub.subscribe(a, "q_c", r.now), check();
    r.hub.upstream_lost(r.now);
    r.hub.activated("q_c", r.now), check();
    r.healthy(i % 2 == 0), check();
    r.hub.written(a, 17), check();
    r.hub.fence("token1:5", 9, r.now), check();
  }
  r.hub.refused("q_c", code::limit, "", "", r.now), check();
  r.hub.leave(a, r.now), check();
  r.hub.leave(b, r.now), check();
  CHECK(r.hub.held_bytes() == 0);
}

TEST_CASE("D7: past the bound of unsent answers the hub reads no more from that worker, until it drains") {
  hub_rig r(small());
  const auto a = r.join();
  const auto b = r.join();
  CHECK(r.hub.may_read(a));
  while (r.hub.may_read(a)) r.hub.answer(a, pong{1}, r.now);
  CHECK(r.hub.may_read(b));
  r.read(a);
  CHECK(r.hub.may_read(a));
  CHECK_FALSE(r.hub.may_read(99));
}

TEST_CASE("D7, case 41: unanswered subs of one channel count as the answers they will be") {
  hub_rig r(small());
  r.healthy(false);
  const auto a = r.join();
  int subs = 0;
  while (r.hub.may_read(a) && subs < 100'000) {
    r.hub.subscribe(a, "c", r.now);
    ++subs;
  }
  CHECK(subs < 100);
  r.hub.activated("c", r.now);
  CHECK(r.read(a).size() == static_cast<std::size_t>(subs));
  CHECK(r.hub.may_read(a));
}

TEST_CASE("K4: channels: one more is nacked with `limit`, in the worker's own words") {
  hub_rig r(small());
  const auto a = r.join();
  const auto b = r.join(0);
  for (const auto* name : {"q_1", "q_2", "q_3"}) r.active(a, name);
  r.hub.subscribe(a, "q_4", r.now);
  r.hub.subscribe(b, "q_4", r.now);
  CHECK(r.read(a) == strings{"nack q_4 limit"});
  CHECK(r.read(b) == strings{"nack 4 limit"});
  CHECK(r.asked() == strings{"turn away " + std::to_string(b) + " limit"});
  r.hub.subscribe(b, "q_3", r.now);  // held already: no new channel
  CHECK(r.read(b) == strings{"ack 3"});
  r.hub.unsubscribe(a, "q_1", r.now);
  r.hub.subscribe(b, "q_4", r.now);
  CHECK(r.asked() == strings{"unwant q_1", "want q_4"});
}

TEST_CASE("K4: subscriptions of all users together; one that ends makes room") {
  auto limits = small();
  limits.max_subscriptions_of_user = 3;
  limits.max_subscriptions = 4;
  hub_rig r(limits);
  const auto a = r.hub.join(1, r.now, {33, false});
  const auto b = r.hub.join(1, r.now, {34, false});
  for (const auto* name : {"1", "2", "3"}) r.active(a, name);
  r.active(b, "1");
  r.hub.subscribe(b, "2", r.now);
  CHECK(r.read(b) == strings{"nack 2 limit"});
  r.hub.subscribe(b, "1", r.now);  // held already
  CHECK(r.read(b) == strings{"ack 1"});
  r.hub.unsubscribe(a, "3", r.now);
  r.hub.subscribe(b, "2", r.now);
  CHECK(r.read(b) == strings{"ack 2"});
  r.hub.leave(a, r.now);
  r.active(b, "3");
  CHECK(r.hub.overview().subscriptions == 3);
}

TEST_CASE("K4: channels of one user, of all its workers together; another's are its own") {
  auto limits = small();
  limits.max_channels = 100;
  limits.channels_of_user = {2, 3};
  limits.max_subscriptions_of_user = 5;
  hub_rig r(limits);
  const auto a = r.hub.join(1, r.now, {33, false});
  const auto b = r.hub.join(1, r.now, {33, false});
  const auto c = r.hub.join(1, r.now, {34, false});
  const auto root = r.hub.join(1, r.now, {0, true});
  r.active(a, "1");
  r.active(b, "2");
  r.active(b, "1");  // held by its user already
  r.hub.subscribe(a, "3", r.now);
  CHECK(r.read(a) == strings{"nack 3 limit"});
  r.active(c, "3");
  r.hub.subscribe(a, "3", r.now);  // that another user holds it makes it no cheaper
  CHECK(r.read(a) == strings{"nack 3 limit"});
  for (const auto* name : {"x", "y", "z"}) r.active(root, name);
  r.hub.subscribe(root, "0", r.now);
  CHECK(r.read(root) == strings{"nack 0 limit"});
  r.hub.unsubscribe(b, "1", r.now);
  r.hub.subscribe(b, "3", r.now);
  CHECK(r.read(b) == strings{"nack 3 limit"});  // `a` holds it still
  r.hub.leave(a, r.now);
  r.hub.subscribe(b, "3", r.now);
  CHECK(r.read(b) == strings{"ack 3"});
  std::vector<worker_id> more;
  for (int i = 0; i < 4; ++i) more.push_back(r.hub.join(1, r.now, {33, false}));
  for (const auto id : more) r.hub.subscribe(id, "3", r.now);
  CHECK(r.read(more[2]) == strings{"ack 3"});
  CHECK(r.read(more[3]) == strings{"nack 3 limit"});  // its user's fifth subscription was the last
}

TEST_CASE("views for status: workers by id, channels by name") {
  hub_rig r;
  const auto a = r.join();
  const auto b = r.join(0);
  r.active(a, "q_z");
  r.active(b, "q_z");
  r.active(a, "q_a");
  r.hub.notification("q_z", "x", 1, r.now);
  const auto workers = r.hub.workers();
  REQUIRE(workers.size() == 2);
  CHECK(workers[0].id == a);
  CHECK(workers[0].channels == std::vector<std::string_view>{"q_a", "q_z"});
  CHECK(workers[0].frames == 1);
  CHECK(workers[0].delivered == 1);
  CHECK(workers[1].dialect == 0);
  const auto channels = r.hub.channels();
  REQUIRE(channels.size() == 2);
  CHECK(channels[0].name == "q_a");
  CHECK(channels[1].workers == 2);
  CHECK(channels[1].active);
  CHECK(r.hub.holds_subscriptions(a));
  r.hub.notification("nobody's", "", 1, r.now);
  CHECK(r.hub.counted().unrouted == 1);
}
