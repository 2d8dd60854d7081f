#include <catch2/catch.hpp>
#include <set>

#include "common/channel.hpp"
#include "common/listen_plan.hpp"

using namespace pgwake;
using namespace std::chrono_literals;
using strings = std::vector<std::string>;
using kind = listen_plan::event::kind;

namespace {

// A server that fails each batch with a bad name in it. bad: name -> sqlstate. is: how it has a name, where
// that is another one.
struct rig {
  listen_plan plan{{}, 1};
  steady_time now{};
  std::map<std::string, std::string> bad;
  std::map<std::string, std::string> is;
  std::map<std::string, std::string> refused;
  std::set<std::string> activated;
  strings retrying;
  strings queries;
  bool replace = false;

  bool turn() {
    const auto b = plan.next(now);
    if (!b) return false;
    queries.push_back(b->sql);
    listen_plan::outcome result{true, {}, "", ""};
    for (const auto& name : b->names) {
      if (b->why != listen_plan::purpose::listen) break;
      result.row.emplace_back(is.contains(name) ? is[name] : name);
      const auto it = bad.find(name);
      if (it == bad.end()) continue;
      result.ok = false;
      result.sqlstate = it->second;
      break;
    }
    std::vector<listen_plan::event> events;
    plan.done(result, now, events);
    for (const auto& e : events) {
      if (e.what == kind::activated) activated.insert(e.channel);
      if (e.what == kind::refused) refused[e.channel] = e.sqlstate;
      if (e.what == kind::retrying) retrying.push_back(e.channel);
      if (e.what == kind::replace_session) replace = true;
    }
    return true;
  }
  void turns() {
    while (turn()) {
    }
  }
};

}  // namespace

TEST_CASE("S5: one bad channel among a thousand: nacked alone, found by halving, the others active") {
  for (const int where : {0, 1, 499, 500, 998, 999}) {
    rig r;
    for (int i = 0; i < 1000; ++i) r.plan.want("c" + std::to_string(i));
    r.bad["c" + std::to_string(where)] = "22P05";
    r.turns();
    CHECK(r.refused == std::map<std::string, std::string>{{"c" + std::to_string(where), "22P05"}});
    CHECK(r.activated.size() == 999);
    CHECK(r.plan.active_count() == 999);
    CHECK(r.queries.size() <= 25);
    CHECK(r.plan.held_count() == 999);
  }
}

TEST_CASE("S5: class 22 and 42 are refused, any other stays pending and is retried with backoff") {
  rig r;
  r.bad = {{"a", "22P05"}, {"b", "42501"}, {"c", "58P01"}, {"d", "57014"}};
  for (const auto* name : {"a", "b", "c", "d", "good"}) r.plan.want(name);
  r.turns();
  CHECK(r.refused == std::map<std::string, std::string>{{"a", "22P05"}, {"b", "42501"}});
  CHECK(r.activated == std::set<std::string>{"good"});
  CHECK(std::set<std::string>(r.retrying.begin(), r.retrying.end()) == std::set<std::string>{"c", "d"});
  REQUIRE(r.plan.deadline());
  const auto first = *r.plan.deadline() - r.now;
  CHECK(first > 50ms);
  CHECK(first <= 100ms);
  CHECK_FALSE(r.turn());
  for (int i = 0; i < 10; ++i) {
    r.now = *r.plan.deadline();
    r.turns();
  }
  CHECK(*r.plan.deadline() - r.now > 100ms);
  CHECK(r.plan.wanted_count() == 3);
  CHECK_FALSE(r.replace);  // some LISTEN works here
  r.bad.clear();
  for (int i = 0; i < 3 && r.plan.deadline(); ++i) {
    r.now = *r.plan.deadline();
    r.turns();
  }
  CHECK(r.activated == std::set<std::string>{"good", "c", "d"});
}

TEST_CASE("S5: if every LISTEN fails, the session is replaced") {
  rig r;
  r.bad = {{"a", "58P01"}, {"b", "58P01"}};
  r.plan.want("a");
  r.plan.want("b");
  r.turns();
  for (int i = 0; i < 10 && !r.replace; ++i) {
    r.now = *r.plan.deadline();
    r.turns();
  }
  CHECK(r.replace);
  r.plan.session_lost();
  r.bad.clear();
  r.turns();
  CHECK(r.activated == std::set<std::string>{"a", "b"});
}

TEST_CASE("S5: however many fail, the others get their turn before the session is given up") {
  for (const int failing : {1, 2, 3, 20, 200}) {
    CAPTURE(failing);
    rig r;
    for (int i = 0; i < failing; ++i) {
      r.bad["bad" + std::to_string(i)] = "58P01";
      r.plan.want("bad" + std::to_string(i));
    }
    r.plan.want("good");
    r.turns();
    CHECK(r.activated == std::set<std::string>{"good"});
    CHECK_FALSE(r.replace);
  }
}

TEST_CASE("S5: a channel that fails and is wanted no more does not keep the session, nor end it") {
  rig r;
  r.bad = {{"a", "58P01"}, {"b", "58P01"}, {"c", "58P01"}};
  for (const auto* name : {"a", "b"}) r.plan.want(name);
  r.turns();
  r.plan.unwant("a", r.now);
  r.plan.unwant("b", r.now);
  CHECK(r.plan.held_count() == 0);
  CHECK_FALSE(r.turn());
  CHECK_FALSE(r.replace);
  r.plan.want("c");
  r.turns();
  CHECK(r.replace);
}

TEST_CASE("S5: while an old channel works, new ones that all fail do not cost it its session") {
  rig r;
  r.plan.want("old");
  r.turns();
  r.bad = {{"a", "58P01"}, {"b", "58P01"}, {"c", "58P01"}};
  for (const auto& [name, sqlstate] : r.bad) r.plan.want(name);
  for (int i = 0; i < 10; ++i) {
    r.turns();
    r.now = *r.plan.deadline();
  }
  CHECK(r.retrying.size() > 10);
  CHECK_FALSE(r.replace);
}

TEST_CASE("S4: a name that is another one to the server is refused, its batch is not, and it is taken back") {
  rig r;
  r.plan.compare_names(true);
  r.is = {{"long", "lon"}, {"\xC2\xA6", "\xEF\xBF\xA4"}};
  for (const auto* name : {"a", "long", "\xC2\xA6", "b"}) r.plan.want(name);
  r.turns();
  CHECK(r.refused == std::map<std::string, std::string>{{"long", "42622"}, {"\xC2\xA6", ""}});
  CHECK(r.activated == std::set<std::string>{"a", "b"});
  CHECK(r.queries == strings{"LISTEN \"a\";LISTEN \"long\";LISTEN \"\xC2\xA6\";LISTEN \"b\";"
                             "SELECT E'a'::pg_catalog.name,E'long'::pg_catalog.name,"
                             "E'\xC2\xA6'::pg_catalog.name,E'b'::pg_catalog.name",
                             "UNLISTEN \"long\";UNLISTEN \"\xC2\xA6\""});
  CHECK(r.plan.active_count() == 2);
}

TEST_CASE("S4: taking a name back does not take the active channel that the server has it as") {
  rig r;
  r.plan.compare_names(true);
  r.plan.want("lon");
  r.turns();
  r.is = {{"long", "lon"}};
  r.plan.want("long");
  r.turns();
  REQUIRE(r.queries.size() == 3);
  CHECK(r.queries.back() == "UNLISTEN \"long\";LISTEN \"lon\"");
  CHECK(r.plan.active("lon"));
}

TEST_CASE("S4: a name that cannot be taken back, or of which the server says nothing, costs the session") {
  rig r;
  r.plan.compare_names(true);
  std::vector<listen_plan::event> events;
  r.plan.want("long");
  REQUIRE(r.plan.next(r.now));
  SECTION("not taken back") {
    r.plan.done({true, {"lon"}, "", ""}, r.now, events);
    REQUIRE(r.plan.next(r.now)->why == listen_plan::purpose::take_back);
    events.clear();
    r.plan.done({false, {}, "57014", "no"}, r.now, events);
  }
  SECTION("nothing said") { r.plan.done({true, {}, "", ""}, r.now, events); }
  REQUIRE(events.size() == 1);
  CHECK(events[0].what == kind::replace_session);
}

TEST_CASE("S5: a refused channel may be asked for again") {
  rig r;
  r.bad = {{"c", "42501"}};
  r.plan.want("c");
  r.turns();
  CHECK(r.refused.count("c") == 1);
  r.bad.clear();
  CHECK_FALSE(r.plan.want("c"));
  r.turns();
  CHECK(r.activated.count("c") == 1);
}

TEST_CASE("S5: unwanted while its batch fails: forgotten without a word") {
  rig r;
  std::vector<listen_plan::event> events;
  for (const auto* name : {"a", "b"}) r.plan.want(name);
  REQUIRE(r.plan.next(r.now));
  r.plan.unwant("a", r.now);
  r.plan.done({false, {}, "58P01", "no"}, r.now, events);
  CHECK(events.empty());
  r.turns();
  CHECK(r.activated == std::set<std::string>{"b"});
  CHECK(r.plan.held_count() == 1);
}

TEST_CASE("S5: wanted again while its failed batch is being tried by halves: LISTENed once") {
  rig r;
  std::vector<listen_plan::event> events;
  for (const auto* name : {"a", "b"}) r.plan.want(name);
  REQUIRE(r.plan.next(r.now));
  r.plan.unwant("b", r.now);
  r.plan.done({false, {}, "58P01", "no"}, r.now, events);
  r.plan.want("b");
  r.turns();
  CHECK(r.activated == std::set<std::string>{"a", "b"});
  CHECK(r.plan.active_count() == 2);
  int listens = 0;
  for (const auto& q : r.queries)
    for (auto at = q.find("LISTEN \"b\""); at != std::string::npos; at = q.find("LISTEN \"b\"", at + 1))
      ++listens;
  CHECK(listens == 1);
}

TEST_CASE("S5: names of one batch that all fail one by one") {
  rig r;
  for (int i = 0; i < 64; ++i) {
    r.plan.want("c" + std::to_string(i));
    r.bad["c" + std::to_string(i)] = "42000";
  }
  r.turns();
  CHECK(r.refused.size() == 64);
  CHECK(r.plan.held_count() == 0);
  CHECK(r.plan.wanted_count() == 0);
}
