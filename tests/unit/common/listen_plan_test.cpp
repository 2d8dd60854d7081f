#include "common/listen_plan.hpp"

#include <catch2/catch.hpp>

#include "common/channel.hpp"

using namespace pgwake;
using namespace std::chrono_literals;
using strings = std::vector<std::string>;

namespace {

constexpr steady_time t0{};

listen_plan::limits limits(std::size_t batch = 1000) {
  listen_plan::limits l;
  l.batch = batch;
  return l;
}

std::string words(const listen_plan::event& e) {
  using kind = listen_plan::event::kind;
  switch (e.what) {
    case kind::activated:
      return "activated " + e.channel;
    case kind::refused:
      return "refused " + e.channel + " " + e.sqlstate;
    case kind::retrying:
      return "retrying " + e.channel + " " + e.sqlstate;
    case kind::released:
      return "released " + e.channel;
    case kind::replace_session:
      return "replace session";
  }
  return "?";
}

struct rig {
  explicit rig(listen_plan::limits l = limits()) : plan(l, 1) {}
  listen_plan plan;
  steady_time now = t0;

  std::string next() {
    const auto b = plan.next(now);
    return b ? b->sql : "-";
  }
  strings done(bool ok = true, const std::string& sqlstate = "") {
    std::vector<listen_plan::event> events;
    plan.done({ok, {}, sqlstate, "message"}, now, events);
    strings out;
    for (const auto& e : events) out.push_back(words(e));
    return out;
  }
};

}  // namespace

TEST_CASE("S1: active only once its batch was committed") {
  rig r;
  CHECK_FALSE(r.plan.want("c"));
  CHECK(r.next() == "LISTEN \"c\"");
  CHECK_FALSE(r.plan.active("c"));
  CHECK_FALSE(r.plan.want("c"));
  CHECK(r.done() == strings{"activated c"});
  CHECK(r.plan.active("c"));
  CHECK(r.plan.want("c"));
  CHECK(r.next() == "-");
}

TEST_CASE("S6: what is wanted while a command is in flight goes out as one query when it ends") {
  rig r;
  r.plan.want("a");
  CHECK(r.next() == "LISTEN \"a\"");
  r.plan.want("b");
  r.plan.want("c");
  r.plan.want("b");
  CHECK(r.next() == "-");
  r.done();
  CHECK(r.next() == "LISTEN \"b\";LISTEN \"c\"");
  CHECK(r.done() == strings{"activated b", "activated c"});
}

TEST_CASE("S6: at most so many names in one batch; LISTENs and UNLISTENs never share one") {
  auto l = limits(2);
  l.linger = 0ms;
  rig r(l);
  for (const auto* name : {"a", "b", "c"}) r.plan.want(name);
  CHECK(r.next() == "LISTEN \"a\";LISTEN \"b\"");
  r.done();
  CHECK(r.next() == "LISTEN \"c\"");
  r.done();
  for (const auto* name : {"a", "b", "c"}) r.plan.unwant(name, r.now);
  r.plan.want("d");
  strings sent;
  for (auto sql = r.next(); sql != "-"; sql = r.next()) {
    sent.push_back(sql);
    r.done();
  }
  REQUIRE(sent.size() == 3);
  CHECK(std::count(sent.begin(), sent.end(), "LISTEN \"d\"") == 1);
  CHECK(std::count(sent.begin(), sent.end(), "UNLISTEN \"a\";UNLISTEN \"b\"") == 1);
}

namespace {

// What the server takes for `names` names: a round trip, and longer the more channels it has.
std::chrono::microseconds cost(std::size_t names, std::size_t active, std::chrono::microseconds round_trip) {
  return round_trip + names * (1us + active * 1us / 200);  // 0.1 ms at 20,000
}

struct pace {
  std::size_t trips = 0;
  std::chrono::microseconds longest{};
};

// All that goes out now, each batch answered when the server has done it.
pace run(rig& r, std::chrono::microseconds round_trip) {
  pace p;
  for (auto b = r.plan.next(r.now); b; b = r.plan.next(r.now)) {
    const auto took = cost(b->names.size(), r.plan.active_count(), round_trip);
    p.longest = std::max(p.longest, took);
    ++p.trips;
    r.now += took;
    r.done();
  }
  return p;
}

}  // namespace

TEST_CASE("S6: a batch is as small as it takes, for notifications wait while the server is at it") {
  rig r;
  CHECK(r.next() == "-");  // the session has caught up
  for (int i = 0; i < 30'000; ++i) r.plan.want("channel " + std::to_string(i));
  const auto p = run(r, 500us);
  CHECK(p.longest < 45ms);  // 250 names at 30,000 channels
  CHECK(p.trips <= 120);
  CHECK(r.plan.active_count() == 30'000);
}

TEST_CASE("S6: UNLISTENs are paced like LISTENs") {
  auto l = limits();
  l.linger = 0ms;
  rig r(l);
  for (int i = 0; i < 20'000; ++i) r.plan.want("channel " + std::to_string(i));
  CHECK(run(r, 500us).longest > 50ms);  // nobody was served before
  for (int i = 0; i < 20'000; ++i) r.plan.unwant("channel " + std::to_string(i), r.now);
  std::vector<std::size_t> sizes;
  for (auto b = r.plan.next(r.now); b; b = r.plan.next(r.now)) {
    sizes.push_back(b->names.size());
    r.now += cost(b->names.size(), r.plan.active_count(), 500us);
    r.done();
  }
  REQUIRE(sizes.size() > 3);
  CHECK(sizes[0] == 1'000);
  CHECK(sizes[1] == 250);
  CHECK(*std::max_element(sizes.end() - 3, sizes.end()) > 500);  // with few channels left, large ones again
}

TEST_CASE("S6: where a round trip is long, a batch may take one more") {
  rig r;
  CHECK(r.next() == "-");
  for (int i = 0; i < 20'000; ++i) r.plan.want("channel " + std::to_string(i));
  const auto p = run(r, 100ms);
  CHECK(p.longest < 250ms);
  CHECK(p.trips <= 25);
}

TEST_CASE("S6: when round trips become long, batches stay large enough") {
  rig r;
  CHECK(r.next() == "-");
  for (int i = 0; i < 1'000; ++i) r.plan.want("early " + std::to_string(i));
  run(r, 500us);
  for (int i = 0; i < 10'000; ++i) r.plan.want("channel " + std::to_string(i));
  CHECK(run(r, 100ms).trips <= 41);
}

TEST_CASE("S6: after a lost session batches are whole ones again until all is active") {
  rig r;
  CHECK(r.next() == "-");
  for (int i = 0; i < 20'000; ++i) r.plan.want("channel " + std::to_string(i));
  run(r, 500us);
  r.plan.session_lost();
  CHECK(run(r, 500us).trips == 20);
}

TEST_CASE("U6: 10,000 channels take at most 12 round trips") {
  rig r;
  for (int i = 0; i < 10'000; ++i) r.plan.want("channel " + std::to_string(i));
  int trips = 0;
  for (; r.next() != "-"; ++trips) r.done();
  CHECK(trips <= 12);
  CHECK(r.plan.active_count() == 10'000);
  r.plan.session_lost();
  for (trips = 0; r.next() != "-"; ++trips) r.done();
  CHECK(trips <= 12);
  CHECK(r.plan.active_count() == 10'000);
}

TEST_CASE("S7: UNLISTEN goes out after the linger, and not if it is wanted again") {
  rig r;
  r.plan.want("c");
  r.next(), r.done();
  r.plan.unwant("c", r.now);
  CHECK(r.plan.deadline() == r.now + 30s);
  r.now += 30s - 1ms;
  CHECK(r.next() == "-");
  CHECK(r.plan.want("c"));  // still active: no round trip
  r.now += 1h;
  CHECK(r.next() == "-");
  r.plan.unwant("c", r.now);
  r.now += 30s;
  CHECK(r.next() == "UNLISTEN \"c\"");
  CHECK(r.done() == strings{"released c"});
  CHECK(r.plan.held_count() == 0);
  CHECK(r.plan.active_count() == 0);
}

TEST_CASE("S7: UNLISTEN never overtakes a new sub: one that comes while it is in flight is LISTENed again") {
  rig r;
  r.plan.want("c");
  r.next(), r.done();
  r.plan.unwant("c", r.now);
  r.now += 30s;
  CHECK(r.next() == "UNLISTEN \"c\"");
  CHECK_FALSE(r.plan.want("c"));  // not acked on the strength of the LISTEN before
  CHECK_FALSE(r.plan.active("c"));
  CHECK(r.done().empty());
  CHECK(r.next() == "LISTEN \"c\"");
  CHECK(r.done() == strings{"activated c"});
}

TEST_CASE("S7: an UNLISTEN that failed changed nothing") {
  rig r;
  r.plan.want("c");
  r.plan.want("d");
  r.next(), r.done();
  r.plan.unwant("c", r.now);
  r.plan.unwant("d", r.now);
  r.now += 30s;
  CHECK(r.next() == "UNLISTEN \"c\";UNLISTEN \"d\"");
  r.plan.want("d");
  CHECK(r.done(false, "57014") == strings{"activated d"});
  CHECK(r.plan.active_count() == 2);
  CHECK(r.next() == "-");  // not again at once
  REQUIRE(r.plan.deadline());
  r.now = std::max(*r.plan.deadline(), r.now);
  CHECK(r.next() == "UNLISTEN \"c\"");
}

TEST_CASE("S7: unwanted while its LISTEN is in flight: it lingers; while waiting: it is forgotten") {
  rig r;
  r.plan.want("a");
  r.next();
  r.plan.want("b");
  r.plan.unwant("a", r.now);
  r.plan.unwant("b", r.now);
  CHECK(r.plan.wanted_count() == 0);
  CHECK(r.plan.held_count() == 1);
  r.done();
  CHECK(r.next() == "-");
  CHECK(r.plan.deadline() == r.now + 30s);
  r.now += 30s;
  CHECK(r.next() == "UNLISTEN \"a\"");
}

TEST_CASE("plan: a lost session: nothing is active, all that is wanted waits, what lingered is forgotten") {
  rig r;
  for (const auto* name : {"active", "lingers", "flies"}) r.plan.want(name);
  r.next(), r.done();
  r.plan.unwant("lingers", r.now);
  r.plan.unwant("flies", r.now);
  r.now += 30s;
  r.next();
  r.plan.want("flies");
  r.plan.want("waits");
  r.plan.session_lost();
  CHECK(r.plan.active_count() == 0);
  CHECK_FALSE(r.plan.in_flight());
  CHECK(r.plan.wanted_count() == 3);
  CHECK(r.plan.held_count() == 3);
  CHECK(r.done().empty());  // an answer that nobody waits for
  const auto sql = r.next();
  for (const auto* name : {"active", "flies", "waits"})
    CHECK(sql.find(quote_identifier(name)) != std::string::npos);
  CHECK(r.done().size() == 3);
}

TEST_CASE("K4: lingering channels are given up early when asked, the oldest first") {
  rig r;
  for (const auto* name : {"a", "b", "c"}) r.plan.want(name);
  r.next(), r.done();
  r.plan.unwant("b", r.now);
  r.now += 1s;
  r.plan.unwant("a", r.now);
  r.plan.shrink(2);
  CHECK(r.next() == "UNLISTEN \"b\"");
  r.done();
  CHECK(r.next() == "-");
  r.plan.shrink(0);  // only what lingers may go
  CHECK(r.next() == "UNLISTEN \"a\"");
  r.done();
  CHECK(r.next() == "-");
  CHECK(r.plan.active("c"));
}

TEST_CASE("plan: neither a stream of LISTENs nor one of UNLISTENs holds back the other") {
  auto l = limits(1);
  l.linger = 0ms;
  rig r(l);
  for (int i = 0; i < 4; ++i) r.plan.want("old" + std::to_string(i));
  while (r.next() != "-") r.done();
  for (int i = 0; i < 4; ++i) r.plan.unwant("old" + std::to_string(i), r.now);
  for (int i = 0; i < 4; ++i) r.plan.want("new" + std::to_string(i));
  int listens = 0;
  for (int i = 0; i < 4; ++i) {
    listens += r.next().starts_with("LISTEN") ? 1 : 0;
    r.done();
  }
  CHECK(listens == 2);
}

TEST_CASE("plan: what is active and wanted, for the outage to come") {
  rig r;
  for (const auto* name : {"a", "b"}) r.plan.want(name);
  r.next(), r.done();
  r.plan.want("c");
  r.plan.unwant("b", r.now);
  std::unordered_set<std::string> active;
  r.plan.collect_active(active);
  CHECK(active == std::unordered_set<std::string>{"a"});
}

TEST_CASE("S6: askers take turns: who wants one channel waits for no crowd's thousand") {
  listen_plan::limits l;
  l.batch = 10;
  listen_plan plan(l, 1);
  for (int i = 0; i < 1'000; ++i) plan.want("crowd" + std::to_string(i), 1);
  auto batch = plan.next(steady_time{});
  REQUIRE(batch);
  CHECK(batch->names.front() == "crowd0");
  for (int i = 0; i < 3; ++i) plan.want("modest" + std::to_string(i), 2);
  plan.session_lost();  // what was in flight waits again
  batch = plan.next(steady_time{});
  REQUIRE(batch);
  for (int i = 0; i < 3; ++i)
    CHECK(std::count(batch->names.begin(), batch->names.end(), "modest" + std::to_string(i)) == 1);
}
