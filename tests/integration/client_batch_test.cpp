#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <set>

#include "integration/client_rig.hpp"

using namespace pgwake;
using namespace pgwake::test;

// What PGWAKE_1.1 added for bindings: events in batches, and nothing that waits.
namespace {

using events = std::vector<seen>;

// Reads batches until `wanted` is among the events, or `patience` is over: then what came is not enough.
events read_until(listener& l, const std::function<bool(const seen&)>& wanted, std::size_t room = 64 * 1024,
                  milliseconds patience = 10s) {
  events out;
  event_batch b(room);
  for (const auto until = deadline_in(patience); clock::now() < until;) {
    l.read(b, 100ms);
    bool found = false;
    for (const event e : b) {
      out.push_back(keep(e));
      found = found || wanted(out.back());
    }
    if (found) break;
  }
  return out;
}

bool readable(int fd, milliseconds patience) {
  pollfd p{fd, POLLIN, 0};
  return ::poll(&p, 1, static_cast<int>(patience.count())) == 1;
}

// Empties the socket; false: the other end is closed.
bool drain(int fd) {
  char bytes[64];
  for (;;) {
    const auto n = ::read(fd, bytes, sizeof bytes);
    if (n == 0) return false;
    if (n < 0) return true;
  }
}

}  // namespace

TEST_CASE("C10 D6: a batch holds what single events would, in order, and what does not fit stays") {
  client_rig r({.encoding = "SQL_ASCII"});
  auto w = r.client();
  REQUIRE(w.client().subscribe(std::vector<std::string>{"c", "durable"}, 10s).empty());
  const std::string big(7'999, 'p');
  for (int i = 0; i < 200; ++i) r.notify("c", std::to_string(i));
  r.notify("c", big);
  r.host().sql("SELECT pg_notify('c', convert_from('\\xe9'::bytea, 'SQL_ASCII'))");
  r.notify("durable");
  r.notify("c", "end");
  REQUIRE(eventually(10s, [&] { return w.client().state().wakes >= 204; }));
  SECTION("one record has no room") {
    std::vector<std::uint64_t> room(1'024);
    std::size_t used = 0;
    CHECK(pgwake_read(w.client().raw(), room.data(), 40, &used, 0, 0) == PGWAKE_INVALID);
    CHECK(used >= sizeof(pgwake_record));
    CHECK(pgwake_read(w.client().raw(), room.data(), used, &used, 0, 0) == 1);
    CHECK(pgwake_read(w.client().raw(), room.data(), 8'192, &used, 3, 0) == 3);
    CHECK(pgwake_read(w.client().raw(), nullptr, 8'192, &used, 0, 0) == PGWAKE_INVALID);
  }
  SECTION("small batches, whose room the class makes larger for the largest") {
    const auto all = read_until(
        w.client(), [](const seen& e) { return e.payload == "end"; }, GENERATE(64, 1'000, 65'536));
    std::vector<std::string> payloads;
    bool durable = false;
    for (const auto& e : all) {
      if (e.channel == "c") payloads.push_back(e.payload.value());
      durable = durable || (e.channel == "durable" && e.durable());
    }
    REQUIRE(payloads.size() == 203);
    for (int i = 0; i < 200; ++i) CHECK(payloads[static_cast<std::size_t>(i)] == std::to_string(i));
    CHECK(payloads[200] == big);
    CHECK(payloads[201] == "\xe9");
    CHECK(durable);
  }
  SECTION("bytes that are not UTF-8 are said") {
    event_batch b;
    std::set<std::string> not_utf8;
    REQUIRE(w.client().read(b, 10s) >= 204);
    for (const event e : b)
      if (!e.utf8()) not_utf8.insert(std::string(e.payload().value()));
    CHECK(not_utf8 == std::set<std::string>{"\xe9"});
  }
  event_batch b;
  while (w.client().read(b, 0ms) > 0) {
  }
  CHECK(w.client().state().waiting == 0);
  CHECK(w.client().state().waiting_bytes == 0);
}

TEST_CASE("C1: a subscription that was started is answered by events, before what it brings") {
  client_rig r({.arguments = {"--allow", "uid:" + std::to_string(::getuid()) + " ok*"}});
  auto w = r.client();
  w.client().subscribe_start({"ok1", "forbidden", "ok2", ""}, 42, 10s);
  std::map<std::string, seen> answers;
  std::map<std::string, int> results;
  event_batch b;
  REQUIRE(eventually(10s, [&] {
    w.client().read(b, 50ms);
    for (const event e : b) {
      if (!e.is_subscribed()) continue;
      CHECK(e.id() == 42);
      answers[std::string(e.channel())] = keep(e);
      results[std::string(e.channel())] = e.result();
    }
    return results.size() == 4;
  }));
  CHECK(results ==
        std::map<std::string, int>{
            {"ok1", PGWAKE_OK}, {"forbidden", PGWAKE_NACK}, {"ok2", PGWAKE_OK}, {"", PGWAKE_NACK}});
  CHECK(answers["forbidden"].reason.rfind("forbidden: ", 0) == 0);
  CHECK(answers[""].reason.rfind("invalid_channel: ", 0) == 0);
  r.notify("ok1", "x");
  CHECK_FALSE(read_until(w.client(), [](const seen& e) { return e.payload == "x"; }).empty());
  CHECK(w.client().state().channels == 2);
  SECTION("the code of a refusal has a call of its own") {
    try {
      w.client().subscribe("forbidden", 10s);
      FAIL("it was not refused");
    } catch (const error& e) {
      CHECK(e.code() == "forbidden");
    }
    CHECK(w.client().subscribe("ok3", 10s));
    CHECK(std::string(pgwake_nack_code()).empty());
  }
  SECTION("after a shutdown nothing begins any more") {
    w.client().shutdown();
    const char* name = "ok9";
    CHECK(pgwake_subscribe_start(w.client().raw(), &name, 1, 1'000, 1) == PGWAKE_CLOSED);
  }
}

TEST_CASE("C1: a started subscription whose deadline passes, or that is ended meanwhile, says so") {
  client_rig r({.through_proxy = true});
  auto w = r.client();
  REQUIRE(w.client().subscribe("first", 10s));
  r.host().proxy().hold_query("LISTEN \"slow\"", 1'500ms);
  const auto begun = clock::now();
  w.client().subscribe_start({"slow"}, 1, 300ms);
  CHECK(clock::now() - begun < at_load(250ms));
  const auto answered = [&](std::string_view channel, int result) {
    event_batch b;
    return eventually(10s, [&] {
      w.client().read(b, 50ms);
      for (const event e : b)
        if (e.is_subscribed() && e.channel() == channel) return e.result() == result;
      return false;
    });
  };
  CHECK(answered("slow", PGWAKE_TIMEOUT));
  r.host().proxy().hold_query("LISTEN \"ended\"", 1'500ms);
  w.client().subscribe_start({"ended"}, 2);
  w.client().unsubscribe("ended");
  CHECK(answered("ended", PGWAKE_CLOSED));
  CHECK(w.client().state().channels == 1);
}

TEST_CASE(
    "C10: the wake socket gets a byte when something comes while nothing waited, and ends with the handle") {
  client_rig r;
  auto w = r.client();
  REQUIRE(w.client().subscribe("c", 10s));
  REQUIRE(w.await_source(source::hub));
  const int fd = w.client().wake_socket();
  CHECK_FALSE(readable(fd, 50ms));
  for (int round = 0; round < 20; ++round) {
    r.notify("c", std::to_string(round));
    REQUIRE(readable(fd, 10s));
    REQUIRE(drain(fd));
    REQUIRE(w.await_wake("c", std::to_string(round)));
    w.take();
  }
  r.notify("c", "waits already");
  REQUIRE(readable(fd, 10s));
  const int second = w.client().wake_socket();
  CHECK(readable(second, 10s));  // what waits is said to a new one too
  drain(fd);
  CHECK_FALSE(drain(fd));  // the first one has ended
  ::close(fd);
  SECTION("one that the caller has closed harms nobody") {
    ::close(second);
    w.take();
    r.notify("c", "nobody looks");
    REQUIRE(w.await_wake("c", "nobody looks"));
  }
  SECTION("it ends with the handle, and the descriptor is readable then") {
    const int watched = w.client().fd();
    w.take();
    CHECK_FALSE(readable(watched, 0ms));
    w.client().shutdown();
    CHECK(readable(watched, 0ms));
    drain(second);
    CHECK_FALSE(drain(second));
    ::close(second);
  }
}

TEST_CASE(
    "C8: a child that reopens with its subscriptions waits for nobody, and is told of the fork by a gap") {
  client_rig r;
  auto w = r.client();
  REQUIRE(w.client().subscribe({"kept", "kept too", "ended"}, 10s).empty());
  CHECK(pgwake_reopen_subscribed(w.client().raw()) == PGWAKE_INVALID);  // this is its own process
  const auto cause = [](listener& l, std::string_view channel) -> std::string {
    const auto all = read_until(l, [&](const seen& e) { return e.channel == channel && !e.gap.empty(); });
    for (const auto& e : all)
      if (e.channel == channel && !e.gap.empty()) return e.gap;
    return "none";
  };
  w.client().unsubscribe("ended");
  const auto child = [&] {
    const auto begun = clock::now();
    w.client().reopen_subscribed();
    if (clock::now() - begun > at_load(500ms)) return 1;
    if (cause(w.client(), "kept") != "forked") return 2;
    if (!w.client().subscribe("kept too", 10s)) return 3;
    if (w.client().state().channels != 2) return 4;
    return 0;
  };
  CHECK(in_child([&] {
          w.client().reopen_subscribed();
          return in_child(child) == 0 && cause(w.client(), "kept") == "forked" ? 0 : 1;
        }) == 0);
  r.notify("kept", "the parent's");
  CHECK(w.await_wake("kept", "the parent's", 20s));
}

TEST_CASE("C10: answers that are owed are bounded in bytes; taking events makes room") {
  options o;
  o.ignore_environment();
  o.set("socket", "/nonexistent/hub.sock");
  o.set("database", "host=/nonexistent");
  listener l(o);
  const std::string name(63, 'n');
  const char* one = name.c_str();
  const auto start = [&](int timeout_ms) { return pgwake_subscribe_start(l.raw(), &one, 1, timeout_ms, 1); };
  SECTION("nobody answers") {
    int count = 0;
    while (count < 1'000'000 && start(-1) == PGWAKE_OK) ++count;
    CHECK(count > 100'000);
    CHECK(count < 1'000'000);
    CHECK(start(0) == PGWAKE_NACK);
    CHECK(std::string(pgwake_nack_code()) == "limit");
    CHECK(std::string(pgwake_last_error()).rfind("limit: ", 0) == 0);
    l.unsubscribe(name);  // all of them are answered so
  }
  SECTION("nobody takes the answers") {
    int count = 0;
    while (count < 1'000'000 && start(0) == PGWAKE_OK) ++count;
    CHECK(count > 100'000);
    CHECK(count < 1'000'000);
  }
  SECTION("names of megabytes are counted as they are") {
    const std::string big(8U << 20U, 'n');
    const char* long_one = big.c_str();
    int count = 0;
    while (count < 100 && pgwake_subscribe_start(l.raw(), &long_one, 1, -1, 1) == PGWAKE_OK) ++count;
    CHECK(count == 7);
  }
  int answers = 0;
  REQUIRE_EVENTUALLY(([&] {
                       while (const auto e = l.next(milliseconds(0)))
                         answers += e->raw().kind == PGWAKE_EVENT_SUBSCRIBED ? 1 : 0;
                       return answers > 5 && start(0) == PGWAKE_OK;
                     }()),
                     30s);
}

TEST_CASE("C3: the state as JSON") {
  client_rig r;
  auto w = r.client();
  REQUIRE(w.client().subscribe("c", 10s));
  REQUIRE(w.await_source(source::hub));
  const auto json = w.client().state_json();
  CHECK(json.rfind(R"({"source":"hub","healthy":true,"handing_over":false,"own_slot":false,"channels":1,)",
                   0) == 0);
  CHECK(json.find(R"("reason":"","hub":")" + std::string(w.client().state().hub) + "\"}") != json.npos);
  char small[8];
  CHECK(pgwake_state_json(w.client().raw(), small, sizeof small) == PGWAKE_INVALID);
}
