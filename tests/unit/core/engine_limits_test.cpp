#include <catch2/catch.hpp>

#include "unit/core/engine_rig.hpp"

using namespace pgwake;
using namespace pgwaked;
using namespace std::chrono_literals;
using Catch::Contains;
using Catch::StartsWith;
using pgwake::test::engine_rig;
using pgwake::test::framed;
using strings = std::vector<std::string>;

TEST_CASE("K1: the allow-list admits by uid and gid, and narrows channels") {
  auto c = engine_rig::defaults();
  admission web;
  web.kind = admission::who::uid;
  web.id = 33;
  web.globs = {"web.*"};
  admission jobs;
  jobs.kind = admission::who::gid;
  jobs.id = 50;
  jobs.globs = {"jobs.*"};
  admission root;
  root.kind = admission::who::uid;
  root.id = 0;
  c.allow = {web, jobs, root};
  engine_rig r(c);
  r.serve();
  const auto refused = r.engine.refusal({1, 99, 99});
  REQUIRE(refused);
  CHECK(refused->why == code::forbidden);
  CHECK_THAT(refused->reason, Contains("99"));
  for (const auto& who : {peer{1, 33, 1}, peer{1, 77, 50}, peer{1, 0, 0}}) CHECK_FALSE(r.engine.refusal(who));
  const auto ask = [&r](const peer& who, const std::string& channel) {
    const auto id = r.engine.joined(who, "t" + channel + std::to_string(who.uid), r.now);
    r.say(id, R"({"t":"hello","v":1})");
    r.sub(id, channel);
    r.serve();
    return r.read(id).back();
  };
  CHECK(ask({1, 33, 1}, "web.a") == "ack web.a");
  CHECK(ask({1, 33, 1}, "jobs.a") == "nack jobs.a forbidden");
  CHECK(ask({1, 33, 50}, "jobs.a") == "ack jobs.a");  // rules add up
  CHECK(ask({1, 0, 0}, "anything") == "ack anything");
  CHECK(ask({1, 0, 0}, "pgwake.fence") == "nack pgwake.fence forbidden");
}

TEST_CASE("K4: too many workers: a clear refusal") {
  auto c = engine_rig::defaults();
  c.max_workers = 2;
  engine_rig r(c);
  r.serve();
  const auto a = r.join();
  CHECK_FALSE(r.engine.refusal({1, 33, 33}));
  r.join();
  const auto refused = r.engine.refusal({1, 33, 33});
  REQUIRE(refused);
  CHECK(refused->why == code::limit);
  CHECK_THAT(refused->reason, Contains("2") && Contains("max_workers"));
  r.engine.left(a, r.now);
  CHECK_FALSE(r.engine.refusal({1, 33, 33}));
}

TEST_CASE("K4: lingering channels are given up first when the hub is full") {
  auto c = engine_rig::defaults();
  c.limits.max_channels = 2;
  engine_rig r(c);
  r.serve();
  const auto a = r.join();
  r.sub(a, "old");
  r.sub(a, "b");
  r.serve();
  r.unsub(a, "old");
  r.read(a);
  r.sub(a, "new");
  const auto first = r.took();
  REQUIRE(first.size() == 1);
  CHECK(first[0] == "send UNLISTEN \"old\"");
  r.succeed();
  CHECK(r.sql == "LISTEN \"new\"");
  r.succeed();
  CHECK(r.read(a) == strings{"ack new"});
  CHECK(r.engine.the_upstream().plan().active_count() == 2);
  r.sub(a, "too many");
  CHECK(r.read(a) == strings{"nack too many limit"});
}

TEST_CASE("K4: subscribing to a lingering channel when the hub is full costs nobody anything") {
  auto c = engine_rig::defaults();
  c.limits.max_channels = 2;
  engine_rig r(c);
  r.serve();
  const auto a = r.join();
  r.sub(a, "x");
  r.sub(a, "y");
  r.serve();
  r.unsub(a, "x");
  r.read(a);
  r.sub(a, "x");
  r.serve();
  CHECK(r.read(a) == strings{"ack x"});
}

TEST_CASE("K4, case 19: unfinished frames are closed at their deadline, each once; the others live") {
  engine_rig r;
  r.serve();
  std::vector<worker_id> slow;
  for (int i = 0; i < 50; ++i) {
    slow.push_back(r.engine.joined({i, 33, 33}, "s" + std::to_string(i), r.now));
    r.bytes(slow.back(), std::string_view("\0\0\1", 3));
  }
  const auto good = r.join();
  CHECK(r.engine.deadline() <= r.now + 10s);
  r.now += 10s;
  r.engine.tick(r.now, true);
  auto closed = r.took();
  closed.erase(
      std::remove_if(closed.begin(), closed.end(), [](const auto& x) { return !x.starts_with("worker"); }),
      closed.end());
  CHECK(closed.size() == 50);
  for (const auto id : slow) r.engine.left(id, r.now);
  r.engine.tick(r.now, true);
  CHECK(r.engine.members().size() == 1);
  r.say(good, R"({"t":"ping","id":1})");
  CHECK(r.read(good).back() == "pong 1");
}

TEST_CASE("K4, D7: a worker that the hub does not read is not blamed for its unfinished frame") {
  auto c = engine_rig::defaults();
  c.limits.control_max_bytes = 400;
  engine_rig r(c);
  r.serve();
  const auto a = r.join();
  std::string pings;
  for (int i = 0; i < 10; ++i) pings += framed(R"({"t":"ping","id":1})");
  r.bytes(a, pings + std::string("\0", 1));
  CHECK_FALSE(r.engine.may_read(a));
  r.now += 10s;
  r.engine.tick(r.now, true);
  for (const auto& action : r.took()) CHECK(action.find("worker") == std::string::npos);
  while (!r.read(a).empty()) {
  }
  CHECK(r.engine.may_read(a));
  r.now += 10s;  // it was not read for a part of these
  r.engine.tick(r.now, true);
  r.took();
  r.now += 10s;
  r.engine.tick(r.now, true);
  const auto last = r.took();
  CHECK(std::count(last.begin(), last.end(), "worker dismissed " + std::to_string(a) + " flush") == 1);
}

TEST_CASE("K4, D8: a worker evicted in the same tick in which frames time out") {
  // The status of a heartbeat pushes the sum over its bound while unfinished frames are being closed.
  auto c = engine_rig::defaults();
  c.limits.outbox_total_max_bytes = 10'000;
  c.limits.heartbeat = 10s;
  engine_rig r(c);
  r.serve();
  std::vector<worker_id> all;
  for (int i = 0; i < 30; ++i) {
    all.push_back(r.engine.joined({i, 33, 33}, "t" + std::to_string(i), r.now));
    r.bytes(all.back(), framed(R"({"t":"x"})") + std::string("\0", 1));
  }
  for (int i = 0; i < 40; ++i) {
    const auto filler = r.engine.joined({i, 33, 33}, "f" + std::to_string(i), r.now);
    r.bytes(filler, framed(R"({"t":"hello","v":1})") + std::string("\0", 1));
  }
  r.now += 10s;
  r.engine.tick(r.now, true);
  CHECK(r.engine.the_hub().held_bytes() <= 10'000);
}

TEST_CASE("D3: an eviction reaches the shell with who and how far behind") {
  auto c = engine_rig::defaults();
  c.limits.outbox_max_frames = 3;
  engine_rig r(c);
  r.serve();
  const auto a = r.join();
  const auto b = r.join();
  for (const auto id : {a, b}) r.sub(id, "c");
  r.serve();
  for (int i = 0; i < 4; ++i) {
    r.engine.notification("c", "x", 1, r.now);
    r.read(b);
  }
  r.now += 1s;
  r.engine.tick(r.now, true);
  CHECK(r.took() == strings{"worker evicted " + std::to_string(a)});
  CHECK_THAT(r.details, Contains("pid=101") && Contains("uid=33") && Contains("reason=slow") &&
                            Contains("outbox_frames=5"));
  CHECK(r.engine.members().size() == 1);
}

TEST_CASE("reload: limits and deadlines change, who one is and how queues are named stay") {
  engine_rig r;
  r.serve();
  const auto a = r.join();
  auto c = engine_rig::defaults();
  c.limits.max_channels = 0;
  c.queue_template = "other_{}";
  c.hub_uuid = "another";
  c.upstream.self_check = "another";
  r.engine.change(c, r.now);
  r.sub(a, "c");
  CHECK(r.read(a) == strings{"nack c limit"});
  CHECK(r.engine.settings().queue_template == "pgmq.q_{}.INSERT");
  CHECK(r.engine.settings().hub_uuid == "uuid");
  r.engine.notification("pgwake.fence", "check:1", 7, r.now);
  CHECK(r.read(a).empty());
}

TEST_CASE("a worker's name is cut for logs, at a character's border") {
  engine_rig r;
  r.serve();
  const auto a = r.engine.joined({1, 33, 33}, "t", r.now);
  std::string name(255, 'x');
  r.say(a, R"({"t":"hello","v":1,"name":")" + name + "日本\"}");
  CHECK(r.engine.members().at(a).name == name);
}

TEST_CASE("a worker's name cannot forge a field of a log line") {
  engine_rig r;
  r.serve();
  const auto a = r.engine.joined({1, 33, 33}, "t", r.now);
  r.say(a, R"({"t":"hello","v":1,"name":"x\" reason=forged \\"})");
  r.say(a, "no JSON");
  r.took();
  CHECK_THAT(r.details,
             StartsWith(R"(worker=1 pid=1 uid=33 name="x\" reason=forged \\" reason=protocol detail=")"));
}

TEST_CASE("S3: a v0 worker that is refused a channel is closed, so that it listens itself") {
  auto c = engine_rig::defaults();
  c.limits.max_channels = 1;
  c.queue_template = "{}";
  engine_rig r(c);
  r.serve();
  const auto v0 = r.join(false);
  const auto v1 = r.join();
  for (const auto id : {v1, v0}) {
    r.sub(id, "a");
    r.serve();
    r.sub(id, "b");
  }
  CHECK(r.took() == strings{"worker dismissed " + std::to_string(v0) + " flush"});
  CHECK(r.read(v0).back() == "nack b limit");
  CHECK(r.engine.members().contains(v1));
}

TEST_CASE("S3: a login that stays refused closes v0 workers, and those that come; v1 is told and stays") {
  engine_rig r;
  r.serve();
  const auto v0 = r.join(false);
  const auto v1 = r.join();
  const auto silent = r.join(false);
  r.sub(v0, "c");
  r.serve();
  r.lose();
  const auto attempt = [&r](const char* message, bool refused) {
    if (!r.connecting) r.now = std::max(r.now, *r.engine.deadline());
    r.engine.tick(r.now, true);
    auto did = r.took();
    if (std::exchange(r.connecting, false)) r.engine.connect_failed({message, refused}, r.now);
    for (auto& d : r.took()) did.push_back(std::move(d));
    std::erase_if(did, [](const auto& d) { return !d.starts_with("worker"); });
    return did;
  };
  // Merely unreachable, for however long: their own connection would fail as well.
  for (const auto until = r.now + 5min; r.now < until;) CHECK(attempt("no route", false).empty());
  attempt("wrong password", true);
  const auto begun = r.now;
  strings did;
  while (did.empty() && r.now < begun + 2min) did = attempt("wrong password", true);
  CHECK(r.now - begun >= 10s);
  CHECK(r.now - begun < 11s);
  CHECK(did == strings{"worker dismissed " + std::to_string(v0) + " flush"});
  r.say(silent, R"({"t":"sub","q":"c"})");
  CHECK(r.took().back() == "worker dismissed " + std::to_string(silent) + " flush");
  CHECK_FALSE(r.read(v1).empty());
  for (const auto id : {v0, silent}) r.engine.left(id, r.now);
  r.now += 1min;
  r.recover();
  const auto again = r.join(false);
  r.sub(again, "c");
  r.serve();
  CHECK(r.read(again) == strings{"status healthy", "ack c"});
}
