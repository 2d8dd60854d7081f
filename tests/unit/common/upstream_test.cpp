#include "common/upstream.hpp"

#include <catch2/catch.hpp>

#include "unit/common/upstream_rig.hpp"

using namespace pgwake;
using namespace std::chrono_literals;
using pgwake::test::upstream_rig;
using strings = std::vector<std::string>;

namespace {

// Live and healthy, with these channels active.
upstream_rig live_with(std::initializer_list<std::string> channels) {
  upstream_rig r;
  r.up.start(r.now, r.out);
  for (const auto& c : channels) r.up.want(c, r.now, r.out);
  r.to_live();
  if (channels.size() > 0) r.ok();
  REQUIRE(r.up.healthy());
  REQUIRE(r.up.plan().active_count() == channels.size());
  r.notes.clear();
  return r;
}

}  // namespace

TEST_CASE("U5: reconnects at once, then exponentially; after a healthy session it starts over") {
  auto r = live_with({"c"});
  r.now += 1h;
  CHECK(r.lose() == strings{"lost connection_lost", "unhealthy connection_lost"});
  CHECK(r.sleep() == strings{"connect"});
  std::vector<std::int64_t> delays;
  for (int i = 0; i < 8; ++i) {
    r.refused();
    const auto from = r.now;
    CHECK(r.sleep() == strings{"connect"});
    delays.push_back(std::chrono::duration_cast<millis>(r.now - from).count());
  }
  const std::int64_t full[] = {100, 200, 400, 800, 1600, 3000, 3000, 3000};
  for (int i = 0; i < 8; ++i) {
    CAPTURE(i);
    CHECK(delays[i] <= full[i]);
    CHECK(delays[i] >= full[i] * 3 / 4);
  }
  r.to_live();
  r.ok();
  r.now += 1h;
  r.lose();
  CHECK(*r.up.deadline() == r.now);  // at once again
  r.tick();
  r.refused();
  CHECK(*r.up.deadline() - r.now <= 100ms);
}

TEST_CASE("U5: sessions that keep dying young are replaced at 1 s at most") {
  auto r = live_with({"c"});
  millis longest{0};
  for (int i = 0; i < 12; ++i) {
    r.now += 1s;
    r.lose();
    longest = std::max(longest, std::chrono::duration_cast<millis>(*r.up.deadline() - r.now));
    if (i == 0) {
      CHECK(*r.up.deadline() == r.now);
    } else {
      CHECK(*r.up.deadline() > r.now);
    }
    CHECK(r.sleep() == strings{"connect"});
    r.to_live();
    r.ok();
  }
  CHECK(longest <= 1s);
  CHECK(longest >= 750ms);
  r.now += 10s;  // a life long enough
  r.lose();
  CHECK(*r.up.deadline() == r.now);
}

TEST_CASE("U5: a refused login is retried more slowly, and never ends anything") {
  upstream_rig r;
  r.up.start(r.now, r.out);
  CHECK(r.took() == strings{"connect"});
  CHECK(r.refused(true) == strings{"unhealthy login"});
  CHECK(*r.up.deadline() - r.now >= 750ms);
  CHECK(*r.up.deadline() - r.now <= 1s);
  for (int i = 0; i < 50; ++i) {
    CHECK(r.sleep() == strings{"connect"});
    r.refused(true);
  }
  CHECK(*r.up.deadline() - r.now <= 30s);
  CHECK(*r.up.deadline() - r.now >= 22s);
}

TEST_CASE("case 2: an outage of a minute: at most 35 attempts and 3 lines") {
  auto r = live_with({"c"});
  r.lose();
  const auto end = r.now + 60s;
  int attempts = 0;
  while (*r.up.deadline() < end) {
    r.sleep();
    ++attempts;
    r.refused();
  }
  CHECK(attempts <= 35);
  CHECK(attempts >= 20);
  CHECK(r.notes.size() <= 3);
  CHECK(r.notes.size() >= 2);
}

TEST_CASE(
    "U5: the log has each new reason at once, one that lasts once a minute, and the end of the outage") {
  auto r = live_with({"c"});
  r.lose();
  r.sleep();
  r.notes.clear();
  const auto failed = [&](const std::string& why) {
    const auto before = r.notes.size();
    r.up.connect_failed({why, false}, r.now, r.out);
    r.took();
    r.sleep();
    return r.notes.size() - before;
  };
  const auto begun = r.now;
  CHECK(failed("could not translate host name") == 1);
  for (int i = 0; i < 5; ++i) CHECK(failed("could not translate host name") == 0);
  CHECK(failed("password is wrong") == 1);
  CHECK(failed("could not translate host name") == 0);
  CHECK(failed("port 5432") == 1);
  CHECK(failed("port 5433") == 0);  // numbers alone make no new reason
  while (r.now < begun + 60s) CHECK(failed("password is wrong") <= 1);
  const auto after_a_minute = r.notes.size();
  CHECK(after_a_minute <= 5);
  r.now += 60s;
  CHECK(failed("password is wrong") == 1);
  r.to_live();
  CHECK(r.notes.back().starts_with("upstream connected"));
  CHECK(r.notes.back().find("outage_ms=1") != std::string::npos);
  r.ok();
  r.now += 1h;
  r.lose();
  r.sleep();
  CHECK(failed("password is wrong") == 1);  // another outage
}

TEST_CASE("U4: idle and silent sends a probe; any byte puts it off") {
  auto r = live_with({"c"});
  const auto live = r.now;
  CHECK(r.up.deadline() == live + 15s);
  r.now = live + 10s;
  r.up.heard(r.now);
  r.now = live + 15s;
  CHECK(r.tick().empty());
  r.now = live + 25s;
  CHECK(r.tick() == strings{"send probe"});
  CHECK(r.ok({"42", "2", "0.5"}).empty());  // c and the fence channel
  CHECK(r.up.queue_usage() == 0.5);
  CHECK(r.up.deadline() == r.now + 15s);
}

TEST_CASE("U4: another backend, another number of channels, an error or silence mean dead") {
  const auto probe = [](auto&& answer) {
    auto r = live_with({"c"});
    r.now += 15s;
    CHECK(r.tick() == strings{"send probe"});
    return answer(r);
  };
  const strings dead = {"close probe", "lost probe", "unhealthy probe"};
  CHECK(probe([](auto& r) { return r.ok({"43", "2", "0"}); }) == dead);
  CHECK(probe([](auto& r) { return r.ok({"42", "1", "0"}); }) == dead);
  CHECK(probe([](auto& r) { return r.ok({"42", "3", "0"}); }) == dead);
  CHECK(probe([](auto& r) { return r.ok({}); }) == dead);
  CHECK(probe([](auto& r) { return r.error("57014"); }) == dead);
  CHECK(probe([](auto& r) {
          r.now += 5s - 1ms;
          CHECK(r.tick().empty());
          r.now += 1ms;
          CHECK(r.tick(false).empty());  // not judged before a read pass found nothing
          return r.tick();
        }) == strings{"close silent", "lost silent", "unhealthy silent"});
}

TEST_CASE("U4, case 21: while a command is in flight no byte for both deadlines together means dead") {
  auto r = live_with({"c"});
  r.up.want("d", r.now, r.out);
  CHECK(r.took() == strings{"send LISTEN \"d\""});
  const auto sent = r.now;
  r.now = sent + 19s;
  CHECK(r.tick().empty());
  r.up.heard(r.now);  // notifications flow though the answer is late
  r.now = sent + 38s;
  CHECK(r.tick().empty());
  r.now = sent + 39s;
  CHECK(r.tick() == strings{"close silent", "lost silent", "unhealthy silent"});
}

TEST_CASE("G3: healthy only when every channel that was active is active again") {
  auto r = live_with({"a", "b"});
  r.lose();
  r.up.want("new", r.now, r.out);
  r.sleep();
  const auto went_live = r.to_live();
  REQUIRE(went_live.size() == 2);
  CHECK(went_live[0].starts_with("send LISTEN"));
  CHECK(went_live[1] == "unhealthy relisten");
  // The batch fails: b alone cannot be LISTENed for the moment.
  auto got = r.error("58P01");
  for (int i = 0; i < 10 && !got.empty() && got.back().starts_with("send"); ++i) {
    CHECK_FALSE(r.up.healthy());
    got = got.back().find("\"b\"") != std::string::npos ? r.error("58P01") : r.ok();
  }
  CHECK_FALSE(r.up.healthy());
  CHECK(r.up.plan().active_count() == 2);
  r.sleep();
  got = r.ok();
  CHECK(got == strings{"activated b", "healthy"});
}

TEST_CASE("G3: a channel that was active and is no more wanted, or is refused, does not hold health back") {
  SECTION("unwanted") {
    auto r = live_with({"a"});
    r.lose();
    r.up.unwant("a", r.now, r.out);
    r.sleep();
    CHECK(r.to_live() == strings{"healthy"});
  }
  SECTION("unwanted while LISTENing again") {
    auto r = live_with({"a"});
    r.lose();
    r.sleep();
    r.to_live();
    r.up.unwant("a", r.now, r.out);
    CHECK(r.took() == strings{"healthy"});
  }
  SECTION("refused") {
    auto r = live_with({"a"});
    r.lose();
    r.sleep();
    r.to_live();
    CHECK(r.error("42501") == strings{"refused a 42501", "healthy"});
  }
}

TEST_CASE("G3: an outage during the re-LISTEN forgets nothing") {
  auto r = live_with({"a"});
  r.lose();
  r.sleep();
  r.to_live();
  r.lose();  // the LISTEN was still in flight
  r.sleep();
  const auto got = r.to_live();
  CHECK(got.back() == "unhealthy relisten");
  CHECK(r.ok() == strings{"activated a", "healthy"});
}

TEST_CASE("S5: no LISTEN works: the session is replaced") {
  upstream_rig r;
  r.up.start(r.now, r.out);
  r.to_live();
  r.up.want("a", r.now, r.out);
  CHECK(r.took() == strings{"send LISTEN \"a\""});
  r.error("58P01");
  strings got;
  for (int i = 0; i < 5 && r.up.live(); ++i) {
    r.sleep();
    got = r.error("58P01");
  }
  CHECK(got == strings{"close listen", "lost listen", "unhealthy listen"});
  CHECK(r.sleep() == strings{"connect"});
}

TEST_CASE("U8: one session at all times: no attempt while one is under way or a session is open") {
  upstream_rig r;
  r.up.start(r.now, r.out);
  CHECK(r.took() == strings{"connect"});
  r.up.start(r.now, r.out);
  r.now += 1h;
  CHECK(r.tick().empty());
  CHECK(r.took().empty());
  CHECK_FALSE(r.up.deadline());
  r.to_live();
  r.up.reconnect("operator", r.now, r.out);
  CHECK(r.took() == strings{"close operator", "lost operator", "unhealthy operator", "connect"});
}

TEST_CASE(
    "U8: an operator's reconnect, or a reload, gives up the attempt that runs, and one that waits its turn") {
  upstream_rig r;
  r.up.start(r.now, r.out);
  CHECK(r.took() == strings{"connect"});
  r.up.reconnect("operator", r.now, r.out);
  CHECK(r.took() == strings{"connect"});
  r.up.hurry(r.now, r.out);
  CHECK(r.took() == strings{"connect"});
  r.refused();
  r.up.hurry(r.now, r.out);
  CHECK(r.took() == strings{"connect"});
  r.to_live();
  r.up.hurry(r.now, r.out);
  CHECK(r.took().empty());  // a session that serves is left alone
}

TEST_CASE("S1: a server that is ready and has carried out nothing, or too little, gets no ack") {
  auto r = live_with({"c"});
  r.up.want("d", r.now, r.out);
  r.up.want("e", r.now, r.out);
  CHECK(r.took() == strings{"send LISTEN \"d\""});
  const std::size_t completed = GENERATE(0U, 2U);
  query_result none;
  none.ok = true;
  none.completed = completed;
  r.up.result(none, r.now, r.out);
  CHECK(r.took() == strings{"close answer", "lost answer", "unhealthy answer"});
  CHECK_FALSE(r.up.plan().active("d"));
}

TEST_CASE("upstream: stopped: the session closed, a late connection closed too, nothing more") {
  auto r = live_with({"c"});
  r.up.stop(r.out);
  CHECK(r.took() == strings{"close stopping"});
  CHECK_FALSE(r.up.deadline());
  CHECK(r.ok().empty());
  CHECK(r.lose().empty());
  upstream_rig early;
  early.up.start(early.now, early.out);
  early.up.stop(early.out);
  early.took();
  CHECK(early.connected() == strings{"close stopping"});
}

TEST_CASE("upstream: say() sends on the fence channel between LISTENs, and tells the outcome") {
  auto r = live_with({"c"});
  r.up.want("d", r.now, r.out);
  r.took();
  r.up.say("T:1", r.now, r.out);
  CHECK(r.took().empty());
  CHECK(r.ok() == strings{"activated d", "send NOTIFY \"pgwake.fence\", E'T:1'"});
  r.up.say("T:2", r.now, r.out);
  CHECK(r.ok() == strings{"said T:1", "send NOTIFY \"pgwake.fence\", E'T:2'"});
  CHECK(r.error("55P03") == strings{"said T:2 failed"});
  r.lose();
  r.up.say("T:3", r.now, r.out);
  CHECK(r.took().empty());
}

TEST_CASE("S1: answers of a dead session activate nothing") {
  auto r = live_with({"c"});
  r.up.want("d", r.now, r.out);
  r.took();
  r.lose();
  CHECK(r.ok().empty());
  CHECK_FALSE(r.up.plan().active("d"));
  CHECK_FALSE(r.up.want("c", r.now, r.out));
}
