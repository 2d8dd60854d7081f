#include "daemon/core/worker_protocol.hpp"

#include <catch2/catch.hpp>
#include <map>

#include "unit/core/describe.hpp"

using namespace pgwake;
using namespace pgwaked;
using namespace std::chrono_literals;
using pgwake::test::framed;
using strings = std::vector<std::string>;
using protocol = worker_protocol;

namespace {

constexpr steady_time t0{};

std::string words(const protocol::event& event) {
  return std::visit(
      [](const auto& e) -> std::string {
        using kind = std::decay_t<decltype(e)>;
        if constexpr (std::is_same_v<kind, protocol::greeted>)
          return "greeted v" + std::to_string(e.hello.v) + " " + e.hello.name.value_or("-");
        else if constexpr (std::is_same_v<kind, protocol::spoke>)
          return "spoke";
        else if constexpr (std::is_same_v<kind, protocol::subscribe>)
          return "subscribe " + e.channel;
        else if constexpr (std::is_same_v<kind, protocol::unsubscribe>)
          return "unsubscribe " + e.channel;
        else if constexpr (std::is_same_v<kind, protocol::reject>)
          return test::describe(from_hub{e.nack});
        else if constexpr (std::is_same_v<kind, protocol::pinged>)
          return "pinged " + std::to_string(e.id);
        else if constexpr (std::is_same_v<kind, protocol::asked_stats>)
          return "asked stats";
        else if constexpr (std::is_same_v<kind, protocol::asked_control>)
          return "asked control " + e.control.what + " " + e.control.arg;
        else if constexpr (std::is_same_v<kind, protocol::ignored>)
          return "ignored " + e.t;
        else
          return "broken: " + e.reason;
      },
      event);
}

struct rig {
  protocol p{*queue_template::parse("pgmq.q_{}.INSERT"), {}, 10s};

  strings bytes(std::string_view data, steady_time now = t0) {
    std::vector<protocol::event> events;
    p.bytes(data, now, events);
    return described(events);
  }
  strings frames(std::initializer_list<std::string_view> jsons) {
    std::string all;
    for (const auto j : jsons) all += framed(j);
    return bytes(all);
  }
  strings tick(steady_time now) {
    std::vector<protocol::event> events;
    p.tick(now, events);
    return described(events);
  }
  static strings described(const std::vector<protocol::event>& events) {
    strings out;
    for (const auto& e : events) out.push_back(words(e));
    return out;
  }
};

constexpr auto hello_json = R"({"t":"hello","v":1,"name":"puma 3"})";

}  // namespace

TEST_CASE("v1: hello first, channels by their names, ping and stats") {
  rig r;
  CHECK(r.frames({hello_json, R"({"t":"sub","q":"Orders"})", R"({"t":"unsub","q":"Orders"})",
                  R"({"t":"ping","id":5})", R"({"t":"stats"})", R"({"t":"news"})"}) ==
        strings{"greeted v1 puma 3", "subscribe Orders", "unsubscribe Orders", "pinged 5", "asked stats",
                "ignored news"});
  CHECK(r.p.speaks() == protocol::dialect::v1);
}

TEST_CASE("v0: no hello, queues through the template, v1's frames are unknown") {
  rig r;
  CHECK(r.frames({R"({"t":"sub","q":"orders"})", R"({"t":"unsub","q":"orders"})", R"({"t":"ping","id":5})",
                  R"({"t":"stats"})", R"({"t":"news"})"}) ==
        strings{"spoke", "subscribe pgmq.q_orders.INSERT", "unsubscribe pgmq.q_orders.INSERT", "ignored ping",
                "ignored stats", "ignored news"});
  CHECK(r.p.speaks() == protocol::dialect::v0);
}

TEST_CASE("v0: what belongs to v1 is unknown whatever it holds; in v1 it needs its members") {
  for (const auto& [frame, t] :
       std::map<std::string, std::string>{{R"({"t":"ping"})", "ping"},
                                          {R"({"t":"ping","id":"x"})", "ping"},
                                          {R"({"id":-1,"t":"ping"})", "ping"},
                                          {R"({"t":"control"})", "control"},
                                          {R"({"t":"control","do":7})", "control"}}) {
    rig v0;
    CHECK(v0.frames({frame, R"({"t":"sub","q":"c"})", frame}) ==
          strings{"spoke", "ignored " + t, "subscribe pgmq.q_c.INSERT", "ignored " + t});
    rig v1;
    CHECK(v1.frames({hello_json, frame}).back().starts_with("broken: "));
  }
  rig r;
  CHECK(r.frames({R"({"t":"ping",})"}).back().starts_with("broken: "));
}

TEST_CASE("hello later is a protocol error, in either dialect, after an unknown frame too") {
  for (const auto* first : {hello_json, R"({"t":"sub","q":"c"})", R"({"t":"news"})"}) {
    rig r;
    auto got = r.frames({first, hello_json, R"({"t":"sub","q":"after"})"});
    CHECK(got.back() == "broken: `hello` must be the first frame");
    CHECK(r.p.is_broken());
    CHECK(r.frames({R"({"t":"sub","q":"after"})"}).empty());
  }
}

TEST_CASE("S4: bad names are nacked and never reach the server; the connection lives") {
  rig r;
  r.frames({hello_json});
  CHECK(r.frames({R"({"t":"sub","q":""})", R"({"t":"sub","q":"a\u0000b"})", R"({"t":"sub","q":7})",
                  R"({"t":"sub"})", R"({"t":"sub","q":"ok"})"}) ==
        strings{"nack  invalid_channel", std::string("nack a\0b invalid_channel", 24),
                "nack 7 invalid_channel", "nack null invalid_channel", "subscribe ok"});
  const std::string name(63, 'x');
  CHECK(r.frames({R"({"t":"sub","q":")" + name + "\"}"}) == strings{"subscribe " + name});
  CHECK(r.frames({R"({"t":"sub","q":")" + name + "x\"}"}) == strings{"nack " + name + "x invalid_channel"});
  CHECK(r.frames({R"({"t":"unsub","q":7})", R"({"t":"unsub","q":""})"}) == strings{"unsubscribe "});
}

TEST_CASE("S4: v0's limit is that of the physical channel, and the nack names the queue") {
  rig r;
  const std::string longest(63 - std::string("pgmq.q_.INSERT").size(), 'q');
  CHECK(r.frames({R"({"t":"sub","q":")" + longest + "\"}"}) ==
        strings{"spoke", "subscribe pgmq.q_" + longest + ".INSERT"});
  CHECK(r.frames({R"({"t":"sub","q":")" + longest + "q\"}"}) ==
        strings{"nack " + longest + "q invalid_channel"});
  // An empty queue would be the channel `pgmq.q_.INSERT`, but a name that is empty is refused.
  CHECK(r.frames({R"({"t":"sub","q":""})"}) == strings{"nack  invalid_channel"});
}

TEST_CASE("K1: channels that begin with `pgwake.` are closed to workers") {
  rig r;
  r.frames({hello_json});
  CHECK(r.frames({R"({"t":"sub","q":"pgwake.fence"})", R"({"t":"sub","q":"pgwake."})",
                  R"({"t":"sub","q":"pgwake"})", R"({"t":"sub","q":"Pgwake.x"})"}) ==
        strings{"nack pgwake.fence forbidden", "nack pgwake. forbidden", "subscribe pgwake",
                "subscribe Pgwake.x"});
  // v0 as well, where the template leads there.
  rig v0{protocol{*queue_template::parse("{}"), {}, 10s}};
  CHECK(v0.frames({R"({"t":"sub","q":"pgwake.fence"})"}) == strings{"spoke", "nack pgwake.fence forbidden"});
}

TEST_CASE("K1: globs are on physical channels") {
  rig r{protocol{*queue_template::parse("pgmq.q_{}.INSERT"), {false, {"pgmq.q_o*", "news"}}, 10s}};
  CHECK(r.frames(
            {R"({"t":"sub","q":"orders"})", R"({"t":"sub","q":"invoices"})", R"({"t":"sub","q":"news"})"}) ==
        strings{"spoke", "subscribe pgmq.q_orders.INSERT", "nack invoices forbidden", "nack news forbidden"});
  rig none{protocol{*queue_template::parse("{}"), {false, {}}, 10s}};
  CHECK(none.frames({R"({"t":"sub","q":"a"})"}) == strings{"spoke", "nack a forbidden"});
}

TEST_CASE("case 20: a malformed frame breaks the connection; nothing after it is read") {
  const auto zero = std::string(4, '\0');
  const auto long_one = std::string("\0\1\0\1", 4);
  for (const auto& bad : {framed("[]"), framed("{}"), framed("\xFF"), framed(std::string(9, '[')), zero,
                          long_one, framed(R"({"t":"sub","q":")" + std::string(1025, 'x') + "\"}")}) {
    rig r;
    auto got = r.bytes(framed(R"({"t":"sub","q":"a"})") + bad + framed(R"({"t":"sub","q":"b"})"));
    REQUIRE(got.size() == 3);
    CHECK(got[1] == "subscribe pgmq.q_a.INSERT");
    CHECK(got[2].starts_with("broken: "));
    CHECK(r.p.is_broken());
    CHECK(r.bytes(framed(R"({"t":"sub","q":"c"})")).empty());
    CHECK_FALSE(r.p.deadline());
    CHECK(r.tick(t0 + 1h).empty());
  }
}

TEST_CASE("a frame of 64 KiB passes") {
  rig r;
  std::string json = R"({"t":"news","x":")";
  json += std::string(max_frame_from_worker - json.size() - 2, 'x') + "\"}";
  CHECK(r.bytes(framed(json)) == strings{"spoke", "ignored news"});
}

TEST_CASE("K4, case 19: a frame begun but not finished in time breaks the connection, once") {
  rig r;
  CHECK_FALSE(r.p.deadline());
  const auto frame = framed(R"({"t":"sub","q":"a"})");
  r.bytes(frame.substr(0, 1), t0);
  CHECK(r.p.deadline() == t0 + 10s);
  r.bytes(frame.substr(1, 5), t0 + 9s);  // slow bytes do not move it
  CHECK(r.p.deadline() == t0 + 10s);
  CHECK(r.tick(t0 + 10s - 1ms).empty());
  CHECK(r.tick(t0 + 10s).size() == 1);
  CHECK(r.p.is_broken());
  CHECK(r.tick(t0 + 20s).empty());
}

TEST_CASE("K4: a finished frame ends its deadline, the next one begins its own") {
  rig r;
  const auto frame = framed(R"({"t":"sub","q":"a"})");
  r.bytes(frame.substr(0, 3), t0);
  r.bytes(frame.substr(3), t0 + 9s);
  CHECK_FALSE(r.p.deadline());
  r.bytes(frame.substr(0, 3), t0 + 20s);
  r.bytes(frame.substr(3) + frame.substr(0, 3), t0 + 25s);
  CHECK(r.p.deadline() == t0 + 35s);
  CHECK(r.tick(t0 + 34s).empty());
}

TEST_CASE("v1: an unsub of a name that is no string is ignored") {
  rig r;
  CHECK(r.frames({hello_json, R"({"t":"unsub"})", R"({"t":"unsub","q":[]})"}) ==
        strings{"greeted v1 puma 3"});
}
