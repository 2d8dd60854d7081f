#include "daemon/core/engine.hpp"

#include <catch2/catch.hpp>

#include "unit/core/engine_rig.hpp"

using namespace pgwake;
using namespace pgwaked;
using namespace std::chrono_literals;
using pgwake::test::engine_rig;
using pgwake::test::framed;
using strings = std::vector<std::string>;

TEST_CASE("engine: from a worker's bytes to LISTEN to the ack, and a notification back") {
  engine_rig r;
  r.serve();
  const auto a = r.join();
  r.sub(a, "c");
  CHECK(r.took() == strings{"send LISTEN \"c\""});
  CHECK(r.read(a).empty());
  r.succeed();
  r.engine.notification("c", "hi", 7, r.now);
  CHECK(r.read(a) == strings{"ack c", "wake c =hi by 7"});
}

TEST_CASE("v0: a worker as pgbus speaks it: no hello, sub, ack, wakes with the queue's name, status") {
  engine_rig r;
  r.serve();
  const auto a = r.join(false);
  CHECK(r.read(a).empty());
  r.sub(a, "orders");
  CHECK(r.took() == strings{"send LISTEN \"pgmq.q_orders.INSERT\""});
  r.say(a, R"({"t":"from the future"})");
  r.succeed();
  r.engine.notification("pgmq.q_orders.INSERT", "", 7, r.now);
  CHECK(r.read(a) == strings{"status healthy", "ack orders", "wake orders"});
  CHECK(r.engine.counts().unknown_frames == 1);
  CHECK(r.engine.members().size() == 1);
}

TEST_CASE("v1: welcome first, then status; db and system_id are null until the upstream was first up") {
  engine_rig r;
  const auto early = r.engine.joined({1, 33, 33}, "early", r.now);
  r.say(early, R"({"t":"hello","v":7,"name":"x"})");
  CHECK(r.read(early) == strings{"welcome v1", "status unhealthy connecting"});
  r.serve();
  CHECK(r.read(early) == strings{"status healthy"});
  const auto late = r.engine.joined({1, 33, 33}, "late", r.now);
  r.say(late, R"({"t":"hello","v":1,"db":"shop"})");
  CHECK(r.read(late) == strings{"welcome v1 shop", "status healthy"});
}

TEST_CASE("C2 C11: workers hear that the server has no connection to spare, and how many it has at all") {
  engine_rig r;
  r.max_connections = "100";
  const auto a = r.join();
  r.connecting = false;
  r.engine.connect_failed({.message = "sorry, too many clients already", .full = true}, r.now);
  r.took();
  CHECK(r.read(a) == strings{"status unhealthy connecting full"});
  r.now += millis{5'000};
  r.engine.tick(r.now, true);
  r.took();
  r.connecting = false;
  r.engine.connect_failed({.message = "no route to host"}, r.now);
  CHECK(r.read(a) == strings{"status unhealthy connecting"});
  r.recover();
  CHECK(r.read(a).back() == "status healthy of 97");
}

TEST_CASE("case 37: another database: bye wrong_database, and that is the last frame") {
  engine_rig r;
  r.serve();
  const auto a = r.engine.joined({1, 33, 33}, "t", r.now);
  r.bytes(a, framed(R"({"t":"hello","v":1,"db":"other"})") + framed(R"({"t":"sub","q":"c"})") +
                 framed(R"({"t":"ping","id":1})"));
  CHECK(r.took() == strings{"worker dismissed 1 flush"});
  r.engine.notification("c", "x", 1, r.now);
  r.lose();
  CHECK(r.read(a) == strings{"welcome v1 shop", "status healthy", "bye wrong_database"});
  CHECK_FALSE(r.engine.the_hub().holds_subscriptions(a));
}

TEST_CASE("case 37: a mismatch found when the upstream is first up") {
  engine_rig r;
  const auto a = r.engine.joined({1, 33, 33}, "t", r.now);
  r.say(a, R"({"t":"hello","v":1,"db":"other"})");
  r.sub(a, "c");
  const auto b = r.engine.joined({2, 33, 33}, "u", r.now);
  r.say(b, R"({"t":"hello","v":1,"db":"shop"})");
  r.sub(b, "d");
  r.serve();
  const auto got = r.read(a);
  CHECK(got.back() == "bye wrong_database");
  CHECK(r.read(b).back() == "ack d");
  CHECK(r.engine.the_hub().channel_count() == 1);
}

TEST_CASE(
    "C6: another cluster or database behind the same address: who was welcomed to the old one comes again") {
  engine_rig r;
  r.serve();
  const auto a = r.join();
  const auto v0 = r.join(false);
  r.sub(a, "c");
  r.sub(v0, "c");
  r.serve();
  r.read(a);
  r.read(v0);
  r.lose();
  const auto row = GENERATE(0, 1, 2, 3);
  CAPTURE(row);
  if (row == 1) r.system_id = "9999";
  if (row == 2) r.database = "other";
  if (row == 3) r.system_id = "";  // the role may not read it: nothing is known
  r.recover();
  const bool moved = row == 1 || row == 2;
  CHECK(r.read(a).back() == (moved ? "bye moved" : "gap c reconnect"));
  CHECK(r.engine.the_hub().holds_subscriptions(a) == !moved);
  CHECK(r.read(v0).back() == "wake c");
  const auto again = r.join();
  CHECK(r.engine.members().at(again).welcomed);
  r.lose();
  r.recover();  // and no more: it is the same as before
  CHECK(r.read(again) == strings{"status unhealthy relisten"});
  CHECK(r.read(again) == strings{"status healthy"});
}

TEST_CASE("case 20: a malformed frame: bye protocol to v1, silence to v0, and nobody else notices") {
  engine_rig r;
  r.serve();
  const auto a = r.join();
  const auto v0 = r.join(false);
  const auto b = r.join();
  r.say(a, "[]");
  CHECK(r.took() == strings{"worker dismissed " + std::to_string(a) + " flush"});
  CHECK(r.read(a) == strings{"bye protocol"});
  r.say(v0, "[]");
  CHECK(r.took() == strings{"worker dismissed " + std::to_string(v0) + " flush"});
  CHECK(r.read(v0).empty());
  CHECK(r.read(b).empty());
  CHECK(r.engine.counts().protocol_errors == 2);
  r.engine.left(a, r.now);
  r.engine.left(v0, r.now);
  CHECK(r.engine.members().size() == 1);
}

TEST_CASE("a dismissed worker is dismissed once, whatever it still sends") {
  engine_rig r;
  r.serve();
  const auto a = r.join();
  r.sub(a, "c");
  r.serve();
  r.bytes(a, framed("[]") + "\0\0");
  r.took();
  r.bytes(a, framed(R"({"t":"sub","q":"d"})"));
  r.now += 1h;
  r.engine.tick(r.now, false);
  for (const auto& action : r.took()) CHECK(action.find("worker") == std::string::npos);
  const auto got = r.read(a);
  CHECK(got.back() == "bye protocol");
}

TEST_CASE("G1 to G3: an outage through the engine") {
  engine_rig r;
  r.serve();
  const auto a = r.join();
  r.sub(a, "c");
  r.serve();
  r.read(a);
  r.lose();
  CHECK(r.read(a) == strings{"status unhealthy connection_lost"});
  r.sub(a, "d");
  CHECK(r.read(a).empty());
  r.recover();
  auto got = r.read(a);
  // Health's last word stands behind it all.
  got.erase(std::remove_if(got.begin(), got.end(), [](const auto& f) { return f.starts_with("status"); }),
            got.end());
  std::sort(got.begin(), got.end());
  CHECK(got == strings{"ack d", "gap c reconnect"});
  CHECK(r.read(a) == strings{"status healthy"});
  r.engine.notification("c", "", 1, r.now);
  CHECK(r.read(a) == strings{"wake c by 1"});
}

TEST_CASE("U7: health is told at once, with its reason") {
  engine_rig r;
  r.serve();
  const auto a = r.join();
  r.now += 15s;
  r.engine.tick(r.now, true);
  r.read(a);
  r.took();
  r.now += 5s;
  r.engine.tick(r.now, true);
  CHECK(r.read(a) == strings{"status unhealthy silent"});
}

TEST_CASE("C6: a fence through the engine; the hub's own check is no fence") {
  engine_rig r;
  r.serve();
  const auto a = r.join();
  r.engine.notification("pgwake.fence", "T1:5", 7, r.now);
  r.engine.notification("pgwake.fence", "check:1", 7, r.now);
  r.engine.notification("pgwake.fence", "stranger:5", 7, r.now);
  CHECK(r.read(a) == strings{"fence 5 by 7"});
}

TEST_CASE("ping and stats") {
  engine_rig r;
  r.serve();
  const auto a = r.join();
  r.say(a, R"({"t":"ping","id":9})");
  CHECK(r.read(a) == strings{"pong 9"});
  r.say(a, R"({"t":"stats"})");
  CHECK(r.took() == strings{"stats of 33 " + std::to_string(a)});
  r.engine.answer_stats(R"({"t":"stats"})", r.now);
  CHECK(r.read(a) == strings{"stats"});
  r.engine.answer_stats("{}", r.now);
  CHECK(r.read(a).empty());
}

TEST_CASE("draining: said to all, over once no v1 worker holds a subscription") {
  engine_rig r;
  r.serve();
  const auto a = r.join();
  const auto v0 = r.join(false);
  r.sub(a, "c");
  r.sub(v0, "c");
  r.serve();
  r.read(a);
  r.engine.drain(5s, r.now);
  CHECK(r.read(a) == strings{"status healthy draining"});
  CHECK_FALSE(r.engine.drained());
  r.unsub(a, "c");
  CHECK(r.engine.drained());
  r.engine.stop(r.now);
  auto last = r.took();
  std::sort(last.begin(), last.end());
  CHECK(last == strings{"close session stopping", "worker dismissed 1 flush", "worker dismissed 2 flush"});
  CHECK(r.read(a) == strings{"bye shutdown"});
}

TEST_CASE("a worker that leaves during anything is simply not found") {
  engine_rig r;
  r.serve();
  const auto a = r.join();
  const auto b = r.join();
  r.sub(a, "c");
  r.sub(b, "c");
  r.engine.left(a, r.now);
  r.engine.left(a, r.now);
  r.bytes(a, framed(R"({"t":"sub","q":"d"})"));
  r.engine.written(a, 10);
  CHECK_FALSE(r.engine.may_read(a));
  CHECK_FALSE(r.engine.evict(a, r.now));
  r.serve();
  CHECK(r.read(b) == strings{"ack c"});
  CHECK(r.engine.the_hub().channel_count() == 1);
}

TEST_CASE("S7: nothing is left after everyone is gone") {
  engine_rig r;
  r.serve();
  std::vector<worker_id> all;
  for (int i = 0; i < 5; ++i) {
    all.push_back(r.join(i % 2 == 0));
    for (int k = 0; k < 4; ++k) r.sub(all.back(), "c" + std::to_string(k));
  }
  r.serve();
  r.engine.notification("c1", "x", 1, r.now);
  for (const auto id : all) r.engine.left(id, r.now);
  CHECK(r.engine.the_hub().channel_count() == 0);
  CHECK(r.engine.the_hub().held_bytes() == 0);
  CHECK(r.engine.the_upstream().plan().wanted_count() == 0);
  r.now += 30s;
  for (int i = 0; i < 3; ++i) {
    r.engine.tick(r.now, true);
    r.serve();
  }
  CHECK(r.engine.the_upstream().plan().held_count() == 0);
}

TEST_CASE("an operator evicts a worker, and reconnects") {
  engine_rig r;
  r.serve();
  const auto a = r.join();
  r.sub(a, "c");
  r.serve();
  CHECK(r.engine.evict(a, r.now));
  CHECK(r.took() == strings{"worker evicted 1"});
  CHECK(r.engine.the_hub().channel_count() == 0);
  r.engine.reconnect(r.now);
  CHECK(r.took() == strings{"close session operator", "connect"});
}
