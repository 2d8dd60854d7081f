#include <catch2/catch.hpp>

#include "integration/rig.hpp"

using namespace pgwake::test;

TEST_CASE("v0: a pgbus worker is served as it expects: no hello, queue names, plain frames") {
  rig r({.arguments = {"--heartbeat", "200ms"}});
  auto worker = r.v0();
  worker.sub("orders");
  // Its first frame is answered with a status; the ack may come before or after it.
  bool status = false;
  bool ack = false;
  while (!status || !ack) {
    const auto got = worker.next();
    REQUIRE(got);
    if (got->t() == "status") {
      status = true;
      CHECK(got->healthy());
    } else {
      REQUIRE(got->text == R"({"t":"ack","q":"orders"})");
      ack = true;
    }
  }
  r.notify("pgmq.q_orders.INSERT");
  CHECK(worker.expect("wake").text == R"({"t":"wake","q":"orders","p":null})");
  r.notify("pgmq.q_orders.INSERT", "{\"html\":\"<p>\"}");
  CHECK(worker.expect("wake").p() == "{\"html\":\"<p>\"}");
  worker.expect("status");
  worker.expect("status");

  worker.unsub("orders");
  worker.sub("other");
  worker.expect("ack", "other");
  r.notify("pgmq.q_orders.INSERT");
  r.notify("pgmq.q_other.INSERT");
  worker.expect_wake("other");
}

TEST_CASE("v0: unknown frames and members are ignored") {
  rig r;
  auto worker = r.v0();
  worker.send_json(R"({"t":"whatever","x":[1,2,{"y":null}]})");
  worker.send_json(R"({"t":"sub","q":"c","later":true})");
  worker.expect("ack", "c");
  worker.send_json(R"({"t":""})");
  r.notify("pgmq.q_c.INSERT");
  worker.expect_wake("c");
}

TEST_CASE("v0: with the identity template a queue is a channel; both dialects share it") {
  rig r({.arguments = {"--queue-template", "{}"}});
  auto old = r.v0();
  auto modern = r.worker();
  old.sub("Shared.Name");
  old.expect("ack", "Shared.Name");
  modern.subscribe("Shared.Name");
  r.notify("Shared.Name", "x");
  old.expect_wake("Shared.Name", "x");
  CHECK(modern.expect_wake("Shared.Name", "x").by() > 0);
}

TEST_CASE("v0: names whose channel is too long are nacked; the queue's name is echoed") {
  rig r;
  auto worker = r.v0();
  const std::string fits(63 - 14, 'q');  // pgmq.q_ and .INSERT take 14 bytes
  worker.sub(fits);
  worker.expect("ack", fits);
  worker.sub(fits + "q");
  const auto nack = worker.expect("nack");
  CHECK(nack.q() == fits + "q");
  CHECK(nack.code() == "invalid_channel");
  CHECK(worker.closed());
}

TEST_CASE("v0: a gap reaches it as a plain durable wake, and its health as status") {
  rig r;
  auto worker = r.v0();
  worker.sub("c");
  worker.expect("ack", "c");
  REQUIRE(r.terminate());
  worker.await_health(false);
  CHECK(worker.expect("wake", 10s).text == R"({"t":"wake","q":"c","p":null})");
  worker.await_health(true);
}

TEST_CASE("S3: in an outage a v0 sub is acked after 1.5 s and woken once LISTEN is active") {
  rig r({.through_proxy = true});
  auto worker = r.v0();
  worker.sub("early");
  worker.expect("ack", "early");
  r.proxy().refuse();
  r.proxy().reset_all();
  worker.await_health(false);
  const auto waited = time_of([&] {
    worker.sub("late");
    worker.expect("ack", "late");
  });
  CHECK(waited >= 1300ms);
  CHECK(waited < at_load(2250ms));
  CHECK(worker.drain(200ms).empty());
  r.proxy().refuse(false);
  std::vector<std::string> woken = {worker.expect("wake", 6s).q(), worker.expect("wake").q()};
  std::sort(woken.begin(), woken.end());
  CHECK(woken == std::vector<std::string>{"early", "late"});
  r.notify("pgmq.q_late.INSERT");
  worker.expect_wake("late");
}

TEST_CASE("S3: a v0 sub is acked in time though the server is silent and nobody knows it yet") {
  rig r({.through_proxy = true});
  auto worker = r.v0();
  worker.sub("first");
  worker.expect("ack", "first");
  r.proxy().hold_query("LISTEN", 4s);
  const auto waited = time_of([&] {
    worker.sub("slow");
    worker.expect("ack", "slow");
  });
  CHECK(waited >= 1300ms);
  CHECK(waited < at_load(2250ms));
  worker.expect_wake("slow", {}, 10s);  // the gap, once LISTEN is active
}

TEST_CASE("S3: a nack that a v0 worker would overlook closes its connection") {
  rig r({.arguments = {"--max-channels", "1"}});
  auto worker = r.v0();
  auto modern = r.worker();
  worker.sub("one");
  worker.expect("ack", "one");
  worker.sub("two");
  worker.expect("nack", "two");
  CHECK(worker.closed());
  modern.subscribe("pgmq.q_one.INSERT");
}
