#include "daemon/core/hub.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "unit/core/hub_rig.hpp"

using namespace pgwake;
using namespace pgwaked;
using namespace std::chrono_literals;
using pgwake::test::hub_rig;
using strings = std::vector<std::string>;

TEST_CASE("S1: registered for routing at once, acked only when the LISTEN is committed") {
  hub_rig r;
  const auto a = r.join();
  r.hub.subscribe(a, "c", r.now);
  CHECK(r.asked() == strings{"want c"});
  CHECK(r.read(a).empty());
  r.hub.notification("c", "early", 7, r.now);  // over-delivery is harmless
  CHECK(r.read(a) == strings{"wake c =early by 7"});
  r.hub.activated("c", r.now);
  r.hub.notification("c", "later", 7, r.now);
  CHECK(r.read(a) == strings{"ack c", "wake c =later by 7"});
}

TEST_CASE("S2: a sub of a channel in flight joins it, one of an active channel is acked at once") {
  hub_rig r;
  const auto a = r.join();
  const auto b = r.join();
  const auto c = r.join();
  r.hub.subscribe(a, "c", r.now);
  r.hub.subscribe(b, "c", r.now);
  CHECK(r.asked() == strings{"want c"});
  CHECK(r.read(b).empty());
  r.hub.activated("c", r.now);
  CHECK(r.read(a) == strings{"ack c"});
  CHECK(r.read(b) == strings{"ack c"});
  r.hub.subscribe(c, "c", r.now);
  CHECK(r.read(c) == strings{"ack c"});
  CHECK(r.asked().empty());
}

TEST_CASE("S3: in an outage v1 waits: never acked, never nacked") {
  hub_rig r;
  r.healthy(false);
  const auto a = r.join();
  r.hub.subscribe(a, "c", r.now);
  r.now += 1h;
  r.hub.tick(r.now);
  CHECK(r.read(a) == strings{"status unhealthy outage"});  // a heartbeat
  r.hub.activated("c", r.now);
  CHECK(r.read(a) == strings{"ack c"});
}

TEST_CASE("S3: never acked from a session known dead") {
  hub_rig r;
  r.healthy();
  const auto a = r.join();
  const auto b = r.join();
  r.active(a, "c");
  r.hub.upstream_lost(r.now);
  r.hub.subscribe(b, "c", r.now);
  CHECK(r.read(b).empty());
  r.hub.activated("c", r.now);
  CHECK(r.read(b) == strings{"ack c"});  // nothing was promised before: no gap
  CHECK(r.read(a) == strings{"gap c reconnect"});
}

TEST_CASE("S3: v0 is acked after 1.5 s of an outage and owes a gap") {
  hub_rig r;
  r.healthy(false);
  const auto a = r.join(0);
  r.hub.subscribe(a, "q_c", r.now);
  CHECK(r.hub.deadline() == r.now + 1500ms);
  r.now += 1499ms;
  r.hub.tick(r.now);
  CHECK(r.read(a).empty());
  r.now += 1ms;
  r.hub.tick(r.now);
  CHECK(r.read(a) == strings{"ack c"});
  r.now += 10s;
  r.hub.activated("q_c", r.now);
  CHECK(r.read(a) == strings{"wake c"});  // the gap, as v0 knows it
}

TEST_CASE("S3: each v0 sub waits its own 1.5 s, v1 subs of the channel go on waiting") {
  hub_rig r;
  r.healthy(false);
  const auto a = r.join(0);
  const auto b = r.join(0);
  const auto v1 = r.join(1);
  r.hub.subscribe(a, "q_c", r.now);
  r.hub.subscribe(v1, "q_c", r.now);
  r.now += 1s;
  r.hub.subscribe(b, "q_c", r.now);
  r.now += 500ms;
  r.hub.tick(r.now);
  CHECK(r.read(a) == strings{"ack c"});
  CHECK(r.read(b).empty());
  CHECK(r.hub.deadline() == r.now + 1s);
  r.now += 1s;
  r.hub.tick(r.now);
  CHECK(r.read(b) == strings{"ack c"});
  CHECK(r.read(v1).empty());
  r.hub.activated("q_c", r.now);
  CHECK(r.read(v1) == strings{"ack q_c"});
}

TEST_CASE("S3: v0 is acked early whatever the health says: a server may be silent before that is known") {
  hub_rig r;
  r.healthy();
  const auto a = r.join(0);
  r.hub.subscribe(a, "q_c", r.now);
  CHECK(r.hub.deadline() == r.now + 1500ms);
  r.now += 1500ms;
  r.hub.tick(r.now);
  CHECK(r.read(a) == strings{"ack c"});
  r.hub.activated("q_c", r.now);
  CHECK(r.read(a) == strings{"wake c"});  // the gap
}

TEST_CASE("S3: in an outage a v0 re-sub of a channel that it holds is acked at once, owed a gap") {
  hub_rig r;
  const auto a = r.join(0);
  const auto b = r.join(0);
  r.active(a, "q_c");
  r.hub.upstream_lost(r.now);
  r.healthy(false);
  r.read(a);
  for (int i = 0; i < 20; ++i) r.hub.subscribe(a, "q_c", r.now);
  CHECK(r.read(a) == strings(20, "ack c"));
  r.hub.subscribe(b, "q_c", r.now);  // to whom nothing was promised yet
  CHECK(r.read(b) == strings{"status unhealthy"});
  r.hub.activated("q_c", r.now);
  CHECK(r.read(a) == strings{"wake c"});
  CHECK(r.read(b) == strings{"ack c"});
}

TEST_CASE("S3: a v1 re-sub in an outage waits for LISTEN") {
  hub_rig r;
  const auto a = r.join();
  r.active(a, "c");
  r.hub.upstream_lost(r.now);
  r.hub.subscribe(a, "c", r.now);
  CHECK(r.read(a).empty());
  r.hub.activated("c", r.now);
  CHECK(r.read(a) == strings{"ack c", "gap c reconnect"});
}

TEST_CASE("S3: who takes no nack is turned away with it, before an ack and after") {
  hub_rig r;
  r.healthy();
  const auto a = r.join(0);
  const auto b = r.join(0);
  const auto v1 = r.join();
  for (const auto id : {a, b, v1}) r.active(id, "q_c");
  r.hub.unsubscribe(b, "q_c", r.now);
  r.hub.refused("q_c", code::listen_failed, "42501", "no", r.now);
  CHECK(r.asked() == strings{"turn away " + std::to_string(a) + " listen_failed", "unwant q_c"});
  r.hub.refuse(b, nack{{"d", ""}, code::forbidden, "no", ""}, r.now);
  r.hub.refuse(v1, nack{{"d", ""}, code::forbidden, "no", ""}, r.now);
  CHECK(r.asked() == strings{"turn away " + std::to_string(b) + " forbidden"});
}

TEST_CASE("S3: a v0 sub withdrawn in an outage gets its ack and leaves nothing behind") {
  hub_rig r;
  r.healthy(false);
  const auto a = r.join(0);
  r.hub.subscribe(a, "q_c", r.now);
  r.hub.unsubscribe(a, "q_c", r.now);
  r.asked();
  r.now += 1500ms;
  r.hub.tick(r.now);
  CHECK(r.read(a) == strings{"ack c"});
  CHECK(r.asked() == strings{"unwant q_c"});
  CHECK(r.hub.channel_count() == 0);
}

TEST_CASE("S7: counted by worker; the last holder's end makes the channel unwanted") {
  hub_rig r;
  const auto a = r.join();
  const auto b = r.join();
  r.active(a, "c");
  r.active(b, "c");
  r.hub.unsubscribe(a, "c", r.now);
  CHECK(r.asked().empty());
  r.hub.notification("c", "", 7, r.now);
  CHECK(r.read(a).empty());
  CHECK(r.read(b) == strings{"wake c by 7"});
  r.hub.unsubscribe(b, "c", r.now);
  CHECK(r.asked() == strings{"unwant c"});
  CHECK(r.hub.channel_count() == 0);
}

TEST_CASE("S7: a worker that leaves releases all it held, and nobody else's") {
  hub_rig r;
  const auto a = r.join();
  const auto b = r.join();
  for (const auto* name : {"c", "d", "e"}) r.active(a, name);
  for (const auto* name : {"d", "e"}) r.active(b, name);
  r.hub.leave(a, r.now);
  CHECK(r.asked() == strings{"unwant c"});
  r.hub.leave(a, r.now);  // an id that left is simply not found
  CHECK(r.asked().empty());
  r.hub.notification("d", "x", 7, r.now);
  r.hub.notification("e", "y", 7, r.now);
  CHECK(r.read(b) == strings{"wake d =x by 7", "wake e =y by 7"});
  CHECK(r.peek(a) == strings{"GONE"});
}

TEST_CASE("S7: an unsub of what one does not hold changes nothing") {
  hub_rig r;
  const auto a = r.join();
  const auto b = r.join();
  r.active(a, "c");
  r.hub.unsubscribe(b, "c", r.now);
  r.hub.unsubscribe(b, "unheard of", r.now);
  r.hub.unsubscribe(99, "c", r.now);
  r.hub.notification("c", "", 1, r.now);
  CHECK(r.read(a) == strings{"wake c by 1"});
  CHECK(r.asked().empty());
}

TEST_CASE(
    "S8, case 42: sub, unsub, sub in one write while LISTEN is slow: two acks, wakes after the second") {
  hub_rig r;
  const auto a = r.join();
  r.hub.subscribe(a, "c", r.now);
  r.hub.unsubscribe(a, "c", r.now);
  r.hub.subscribe(a, "c", r.now);
  CHECK(r.asked() == strings{"want c"});
  r.hub.activated("c", r.now);
  r.hub.notification("c", "x", 1, r.now);
  CHECK(r.read(a) == strings{"ack c", "ack c", "wake c =x by 1"});
  CHECK(r.asked().empty());
}

TEST_CASE("S8: a sub unsubscribed meanwhile gets its ack, no wakes, and then is gone") {
  hub_rig r;
  const auto a = r.join();
  r.hub.subscribe(a, "c", r.now);
  r.hub.unsubscribe(a, "c", r.now);
  r.hub.notification("c", "x", 1, r.now);
  r.asked();
  r.hub.activated("c", r.now);
  CHECK(r.read(a) == strings{"ack c"});
  CHECK(r.asked() == strings{"unwant c"});
  r.hub.notification("c", "y", 1, r.now);
  CHECK(r.read(a).empty());
}

TEST_CASE("S8: sub does not nest: one unsub ends it") {
  hub_rig r;
  const auto a = r.join();
  r.active(a, "c");
  r.hub.subscribe(a, "c", r.now);
  r.hub.subscribe(a, "c", r.now);
  CHECK(r.read(a) == strings{"ack c", "ack c"});
  r.hub.unsubscribe(a, "c", r.now);
  r.hub.notification("c", "x", 1, r.now);
  CHECK(r.read(a).empty());
  CHECK(r.asked() == strings{"unwant c"});
}

TEST_CASE("S8: after the ack of any later sub there are no more wakes of a channel unsubscribed before") {
  hub_rig r;
  const auto a = r.join();
  r.active(a, "c");
  r.hub.notification("c", "before", 1, r.now);
  r.hub.unsubscribe(a, "c", r.now);
  r.hub.notification("c", "after", 1, r.now);
  r.active(r.join(), "d");
  r.hub.subscribe(a, "d", r.now);
  r.hub.notification("c", "", 1, r.now);
  CHECK(r.read(a) == strings{"wake c =before by 1", "ack d"});
}

TEST_CASE("S8: refused: every pending sub its own nack") {
  hub_rig r;
  const auto a = r.join();
  const auto b = r.join(0);
  r.hub.subscribe(a, "q_c", r.now);
  r.hub.subscribe(a, "q_c", r.now);
  r.hub.subscribe(b, "q_c", r.now);
  r.hub.unsubscribe(b, "q_c", r.now);
  r.asked();
  r.hub.refused("q_c", code::listen_failed, "42501", "permission denied", r.now);
  CHECK(r.read(a) == strings{"nack q_c listen_failed 42501", "nack q_c listen_failed 42501"});
  CHECK(r.read(b) == strings{"nack c listen_failed 42501"});
  CHECK(r.asked() == strings{"turn away " + std::to_string(b) + " listen_failed", "unwant q_c"});
  r.hub.notification("q_c", "x", 1, r.now);
  CHECK(r.read(a).empty());
}

TEST_CASE("S5: a refused channel harms no other") {
  hub_rig r;
  const auto a = r.join();
  r.hub.subscribe(a, "bad", r.now);
  r.hub.subscribe(a, "good", r.now);
  r.hub.refused("bad", code::listen_failed, "22P05", "no", r.now);
  r.hub.activated("good", r.now);
  CHECK(r.read(a) == strings{"nack bad listen_failed 22P05", "ack good"});
  r.hub.notification("good", "x", 1, r.now);
  CHECK(r.read(a) == strings{"wake good =x by 1"});
}

TEST_CASE("D1: ephemeral wakes in commit order across channels, once each") {
  hub_rig r;
  const auto a = r.join();
  for (const auto* name : {"c", "d"}) r.active(a, name);
  r.hub.notification("c", "1", 1, r.now);
  r.hub.notification("d", "2", 2, r.now);
  r.hub.notification("c", "3", 1, r.now);
  r.hub.notification("c", "3", 1, r.now);  // two transactions may say the same
  CHECK(r.read(a) == strings{"wake c =1 by 1", "wake d =2 by 2", "wake c =3 by 1", "wake c =3 by 1"});
}

TEST_CASE("D2: through the hub: coalesced while it waits, appended after an ack, a gap or a fence") {
  hub_rig r;
  const auto a = r.join(1, "T");
  r.active(a, "c");
  for (int by : {1, 1, 2}) r.hub.notification("c", "", by, r.now);
  r.hub.subscribe(a, "c", r.now);
  r.hub.notification("c", "", 3, r.now);
  CHECK(r.hub.fence("T:1", 9, r.now));
  r.hub.notification("c", "", 3, r.now);
  CHECK(r.read(a) == strings{"wake c", "ack c", "wake c by 3", "fence 1 by 9", "wake c by 3"});
  CHECK(r.hub.counted().coalesced == 2);
}

TEST_CASE("D5: one notification, encoded once per dialect, shared by all") {
  hub_rig r;
  std::vector<worker_id> ids;
  for (int i = 0; i < 10; ++i) ids.push_back(r.join(i % 2));
  for (const auto id : ids) r.active(id, "q_c");
  r.hub.notification("q_c", "payload", 1, r.now);
  const char* where[2] = {nullptr, nullptr};
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::vector<std::string_view> views;
    r.hub.open_outbox(ids[i])->gather(views, 64, 1000);
    REQUIRE(views.size() == 1);
    auto& first = where[i % 2];
    if (first == nullptr) first = views[0].data();
    CHECK(views[0].data() == first);
  }
  CHECK(where[0] != where[1]);
}

TEST_CASE("C6: a fence reaches the worker that its token addresses, and nobody else") {
  hub_rig r;
  const auto a = r.join(1, "A");
  const auto b = r.join(1, "B:x");
  CHECK(r.hub.fence("A:18446744073709551615", 9, r.now));
  CHECK(r.hub.fence("B:x:7", 9, r.now));
  for (const auto* bad :
       {"", ":", "A", "A:", "A:x", "A:1x", "A:-1", "A:18446744073709551616", "C:1", ":1", "A:1:"}) {
    CAPTURE(bad);
    CHECK_FALSE(r.hub.fence(bad, 9, r.now));
  }
  CHECK(r.read(a) == strings{"fence 18446744073709551615 by 9"});
  CHECK(r.read(b) == strings{"fence 7 by 9"});
  r.hub.leave(a, r.now);
  CHECK_FALSE(r.hub.fence("A:2", 9, r.now));
}

TEST_CASE(
    "C6: no fence for a worker whose stream has a hole: a channel of it waits for its LISTEN, or owes a "
    "gap") {
  hub_rig r;
  const auto a = r.join(1, "A");
  const auto b = r.join(1, "B");
  const auto fences = [&](worker_id id, const char* token) {
    CHECK(r.hub.fence(std::string(token) + ":1", 9, r.now));
    const auto got = r.read(id);
    return std::count(got.begin(), got.end(), "fence 1 by 9");
  };
  r.active(a, "c");
  r.active(a, "d");
  r.active(b, "c");
  CHECK(fences(a, "A") == 1);
  SECTION("after an outage, until the last of its channels is active") {
    r.hub.upstream_lost(r.now);
    CHECK(fences(a, "A") == 0);
    r.hub.activated("c", r.now);
    CHECK(fences(b, "B") == 1);
    CHECK(fences(a, "A") == 0);
    r.hub.activated("d", r.now);
    CHECK(fences(a, "A") == 1);
  }
  SECTION("a wake that overtakes the answer of its LISTEN brings the gap, and is no reason yet") {
    r.hub.upstream_lost(r.now);
    r.hub.activated("d", r.now);
    r.hub.notification("c", "1", 7, r.now);
    CHECK(fences(a, "A") == 0);
  }
  SECTION("another's new channel is no reason, its own is, unless it was given up") {
    r.hub.subscribe(b, "new", r.now);
    CHECK(fences(a, "A") == 1);
    CHECK(fences(b, "B") == 0);
    r.hub.unsubscribe(b, "new", r.now);
    CHECK(fences(b, "B") == 1);
    r.hub.activated("new", r.now);
    r.hub.subscribe(b, "other", r.now);
    r.hub.refused("other", code::listen_failed, "", "", r.now);
    CHECK(fences(b, "B") == 1);
    r.hub.subscribe(b, "third", r.now);
    r.hub.leave(b, r.now);
    CHECK(fences(a, "A") == 1);
  }
}

TEST_CASE("C6: whoever floods the fence channel fills no queue") {
  hub_rig r;
  const auto a = r.join(1, "A");
  for (int i = 0; i < 1'000; ++i) CHECK(r.hub.fence("A:" + std::to_string(i), 9, r.now));
  CHECK(r.read(a).size() == 8);
  CHECK(r.hub.fence("A:5", 9, r.now));
  CHECK(r.read(a) == strings{"fence 5 by 9"});
}

TEST_CASE("C6 D7: a worker that does not read learns of the outage that it slept through") {
  hub_rig r;
  const auto a = r.join(1, "A");
  r.active(a, "c");
  r.healthy();
  r.hub.upstream_lost(r.now);
  r.healthy(false);
  r.hub.activated("c", r.now);
  r.healthy();
  CHECK(r.peek(a) == strings{"status unhealthy outage", "gap c reconnect"});
  CHECK(r.read(a).front() == "status unhealthy outage");
  CHECK(r.read(a) == strings{"status healthy"});
}

TEST_CASE("status: after the first frame, on every change, every heartbeat") {
  hub_rig r;
  r.healthy();
  const auto silent = r.hub.join(0, r.now);
  const auto a = r.hub.join(1, r.now);
  welcome w;
  w.fence = "t";
  r.hub.greet(a, w, r.now);
  CHECK(r.read(a) == strings{"welcome v1", "status healthy"});
  r.healthy(false);
  CHECK(r.read(a) == strings{"status unhealthy outage"});
  r.now += 4999ms;
  r.hub.tick(r.now);
  CHECK(r.read(a).empty());
  r.now += 1ms;
  r.hub.tick(r.now);
  r.hub.tick(r.now);
  CHECK(r.read(a) == strings{"status unhealthy outage"});
  r.hub.health({false, true, 5000, "outage"}, r.now);
  CHECK(r.read(a) == strings{"status unhealthy outage draining"});
  CHECK(r.read(silent).empty());  // it has not sent its first frame
}

TEST_CASE("touched: each worker with something new to write, once, until its outbox is opened") {
  hub_rig r;
  const auto a = r.join();
  const auto b = r.join();
  r.active(a, "c");
  r.hub.touched().clear();
  r.hub.notification("c", "1", 1, r.now);
  r.hub.notification("c", "2", 1, r.now);
  CHECK(r.hub.touched() == std::vector<worker_id>{a});
  r.hub.touched().clear();
  r.hub.open_outbox(a);
  r.hub.notification("c", "3", 1, r.now);
  CHECK(r.hub.touched() == std::vector<worker_id>{a});
  CHECK(r.hub.open_outbox(b) != nullptr);
}
