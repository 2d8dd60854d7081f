#include <catch2/catch.hpp>

#include "unit/core/hub_rig.hpp"

using namespace pgwake;
using namespace pgwaked;
using pgwake::test::hub_rig;
using strings = std::vector<std::string>;

TEST_CASE("G1: after an outage every acked subscription gets one gap, a pending one its ack") {
  hub_rig r;
  const auto a = r.join();
  const auto b = r.join(0);
  const auto c = r.join();
  r.active(a, "q_c");
  r.active(b, "q_c");
  r.hub.subscribe(c, "q_d", r.now);
  r.hub.upstream_lost(r.now);
  r.hub.subscribe(c, "q_c", r.now);
  CHECK(r.read(a).empty());  // never before LISTEN is active again
  r.hub.activated("q_c", r.now);
  r.hub.activated("q_d", r.now);
  CHECK(r.read(a) == strings{"gap q_c reconnect"});
  CHECK(r.read(b) == strings{"wake c"});
  CHECK(r.read(c) == strings{"ack q_c", "ack q_d"});
}

TEST_CASE("G2: what is committed after the gap was received is delivered") {
  hub_rig r;
  const auto a = r.join();
  r.active(a, "c");
  r.hub.upstream_lost(r.now);
  r.hub.activated("c", r.now);
  CHECK(r.read(a) == strings{"gap c reconnect"});
  r.hub.notification("c", "", 7, r.now);
  CHECK(r.read(a).size() == 1);
  r.hub.notification("c", "x", 7, r.now);
  r.hub.notification("c", "", 7, r.now);
  CHECK(r.read(a).size() == 2);
  // The gap is still on its way: a durable wake behind it is not swallowed by it.
  r.hub.upstream_lost(r.now);
  r.hub.activated("c", r.now);
  r.hub.notification("c", "", 7, r.now);
  CHECK(r.read(a).size() == 2);
}

TEST_CASE("G1: an outage within the outage still means one gap, owed until LISTEN is active") {
  hub_rig r;
  const auto a = r.join();
  r.active(a, "c");
  r.hub.upstream_lost(r.now);
  r.hub.upstream_lost(r.now);
  r.hub.activated("c", r.now);
  CHECK(r.read(a) == strings{"gap c reconnect"});
  r.hub.upstream_lost(r.now);
  r.hub.activated("c", r.now);
  CHECK(r.read(a) == strings{"gap c reconnect"});
}

TEST_CASE("G1: who asks again during the outage gets ack and gap") {
  hub_rig r;
  const auto a = r.join();
  r.active(a, "c");
  r.hub.upstream_lost(r.now);
  r.hub.subscribe(a, "c", r.now);
  r.hub.activated("c", r.now);
  CHECK(r.read(a) == strings{"ack c", "gap c reconnect"});
}

TEST_CASE("G1: who unsubscribed during the outage gets none; who came back owes nothing") {
  hub_rig r;
  const auto a = r.join();
  r.active(a, "c");
  r.active(a, "d");
  r.hub.upstream_lost(r.now);
  r.hub.unsubscribe(a, "c", r.now);
  r.hub.unsubscribe(a, "d", r.now);
  r.hub.subscribe(a, "d", r.now);
  r.hub.activated("d", r.now);
  CHECK(r.read(a) == strings{"ack d"});
}

TEST_CASE(
    "gaps: announced before any newer wake on the channel, even one that overtakes the LISTEN's answer") {
  // PostgreSQL's notifications may be read in an earlier pass than the ReadyForQuery behind them: a
  // notification of this session proves that its LISTEN is committed.
  hub_rig r;
  const auto a = r.join();
  r.active(a, "c");
  r.hub.upstream_lost(r.now);
  r.hub.notification("c", "new", 1, r.now);
  r.hub.notification("c", "newer", 1, r.now);
  CHECK(r.read(a) == strings{"gap c reconnect", "wake c =new by 1", "gap c reconnect", "wake c =newer by 1"});
  // Once more when it is known to be active: until then the batch may be taken back.
  r.hub.activated("c", r.now);
  CHECK(r.read(a) == strings{"gap c reconnect"});
  r.hub.activated("c", r.now);
  CHECK(r.read(a).empty());
}

TEST_CASE("gaps: what waits from before the outage stays before the gap") {
  hub_rig r;
  const auto a = r.join();
  r.active(a, "c");
  r.hub.notification("c", "", 1, r.now);
  r.hub.notification("c", "old", 1, r.now);
  r.hub.upstream_lost(r.now);
  r.hub.activated("c", r.now);
  r.hub.notification("c", "new", 1, r.now);
  CHECK(r.read(a) == strings{"wake c by 1", "wake c =old by 1", "gap c reconnect", "wake c =new by 1"});
}

TEST_CASE("gaps: a waiting durable wake becomes the gap") {
  hub_rig r;
  const auto a = r.join();
  r.active(a, "c");
  r.hub.notification("c", "", 1, r.now);
  r.hub.upstream_lost(r.now);
  r.hub.activated("c", r.now);
  r.hub.notification("c", "", 2, r.now);
  CHECK(r.read(a) == strings{"gap c reconnect", "wake c by 2"});
}

TEST_CASE("G1: who is refused after an outage hears of it") {
  hub_rig r;
  const auto a = r.join();
  r.active(a, "c");
  r.hub.upstream_lost(r.now);
  r.hub.refused("c", code::listen_failed, "42501", "no more", r.now);
  CHECK(r.read(a) == strings{"nack c listen_failed 42501"});
  CHECK(r.hub.channel_count() == 0);
}
