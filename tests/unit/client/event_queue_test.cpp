#include <malloc.h>
#include <catch2/catch.hpp>

#include "client/src/core/event_queue.hpp"
#include "support/sanitizer.hpp"

using namespace pgwake;
using namespace pgwake::client;

namespace {

event wake_of(std::string channel, std::optional<std::string> payload = std::nullopt, int by = 1) {
  event e;
  e.source = side::hub;
  e.channel = std::move(channel);
  e.payload = std::move(payload);
  e.by = by;
  return e;
}

event gap_of(std::string channel, gap_cause cause = gap_cause::hub_lost) {
  auto e = wake_of(std::move(channel));
  e.gap = cause;
  return e;
}

event state_of(side source) {
  event e;
  e.what = event::kind::state;
  e.source = source;
  return e;
}

// Room for so many events with a payload of nine bytes.
std::size_t room_for(std::size_t count) {
  return count * event_queue::cost(wake_of("a", std::string(9, '1')));
}

// "c" durable, "c=x" ephemeral, "c!hub_lost" a gap, "#own" a state.
std::string all(event_queue& q) {
  std::string out;
  for (event e; q.pop(e);) {
    if (!out.empty()) out += ' ';
    if (e.what == event::kind::state) {
      out += "#" + std::string(to_string(e.source));
      continue;
    }
    out += e.channel;
    if (e.payload) out += "=" + *e.payload;
    if (e.gap != gap_cause::none) out += "!" + std::string(to_string(e.gap));
  }
  CHECK(q.empty());
  CHECK(q.bytes() == 0);
  return out;
}

}  // namespace

TEST_CASE("C10 D2: a durable wake merges into one that waits; by and source are those that still hold") {
  event_queue q(room_for(100));
  q.push(wake_of("a", std::nullopt, 7));
  q.push(wake_of("b"));
  q.push(wake_of("a", std::nullopt, 7));
  CHECK(q.size() == 2);
  q.push(wake_of("a", std::nullopt, 8));
  CHECK(q.coalesced() == 2);
  CHECK(q.wakes() == 2);
  event first;
  REQUIRE(q.pop(first));
  CHECK(first.channel == "a");
  CHECK(first.by == 0);
  q.push(wake_of("a", std::nullopt, 9));  // the one that was taken is gone
  CHECK(all(q) == "b a");
}

TEST_CASE("C10 D2: a gap absorbs a durable wake that waits, never the reverse") {
  event_queue q(room_for(100));
  q.push(wake_of("a"));
  q.push(wake_of("a", "1"));
  q.push(gap_of("a"));
  q.push(wake_of("a"));
  CHECK(all(q) == "a=1 a!hub_lost a");
}

TEST_CASE("C10: a gap with nothing ephemeral behind it takes a newer one's cause; otherwise both are told") {
  event_queue q(room_for(100));
  q.push(gap_of("a"));
  q.push(gap_of("a", gap_cause::reconnect));
  q.push(wake_of("a", "1"));
  q.push(gap_of("a"));
  q.push(gap_of("b"));
  CHECK(all(q) == "a!reconnect a=1 a!hub_lost b!hub_lost");
  for (int i = 0; i < 100; ++i) {
    q.push(gap_of("a"));
    q.push(wake_of("a"));
  }
  CHECK(q.size() == 2);
}

TEST_CASE("C10: over the cap ephemeral events are discarded, and the gap waits behind what was kept") {
  event_queue q(room_for(3));
  q.push(wake_of("a", std::string(9, '1')));
  q.push(wake_of("b", std::string(9, '2')));
  q.push(wake_of("a", std::string(9, '3')));
  q.push(wake_of("a", std::string(9, '4')));
  q.push(wake_of("a", std::string(9, '5')));
  q.push(wake_of("c"));  // durable ones are bounded by the number of channels
  CHECK(q.discarded() == 2);
  CHECK(q.ephemeral_bytes() == room_for(3));
  CHECK(all(q) == "a=111111111 b=222222222 a=333333333 a!overflow c");
}

TEST_CASE("C10: once there is room again events come behind the gap; the next loss has its own") {
  event_queue q(room_for(1));
  q.push(wake_of("a", std::string(9, '1')));
  q.push(wake_of("a", std::string(9, '2')));
  event first;
  REQUIRE(q.pop(first));
  CHECK(first.payload == std::string(9, '1'));
  q.push(wake_of("a", std::string(9, '3')));
  q.push(wake_of("a", std::string(9, '4')));
  CHECK(all(q) == "a!overflow a=333333333 a!overflow");
}

TEST_CASE("C10: one state waits, the newest, in its place in time") {
  event_queue q(room_for(100));
  q.push(state_of(side::hub));
  q.push(wake_of("a"));
  q.push(state_of(side::none));
  q.push(state_of(side::own));
  q.push(gap_of("a"));
  CHECK(all(q) == "#own a!hub_lost");
}

TEST_CASE("C10: forgetting a channel leaves the others in order") {
  event_queue q(room_for(100));
  for (const auto* c : {"a", "b", "a", "c"}) q.push(wake_of(c, "x"));
  q.push(wake_of("a"));
  q.push(gap_of("b"));
  q.forget("a");
  q.forget("nobody");
  CHECK(q.size() == 3);
  q.push(wake_of("a", "new"));
  CHECK(all(q) == "b=x c=x b!hub_lost a=new");
}

TEST_CASE("C10: the books balance whatever is pushed, popped and forgotten") {
  jitter random(42);
  event_queue q(room_for(8));
  const auto below = [&](int n) { return static_cast<int>(random.next() * n); };
  for (int i = 0; i < 20'000; ++i) {
    const std::string channel(1, static_cast<char>('a' + below(4)));
    switch (below(6)) {
      case 0:
        q.push(wake_of(channel));
        break;
      case 1:
        q.push(gap_of(channel));
        break;
      case 2:
        if (below(8) == 0) q.forget(channel);
        break;
      case 3: {
        event taken;
        q.pop(taken);
      } break;
      default:
        q.push(wake_of(channel, std::string(static_cast<std::size_t>(below(60)), 'x')));
    }
    REQUIRE(q.ephemeral_bytes() <= room_for(8));
  }
  all(q);
}

TEST_CASE("C10: what comes and goes behind an event that nobody takes leaves nothing behind") {
  event_queue q(room_for(100));
  q.push(wake_of("a", "first"));
  for (int i = 0; i < 20'000; ++i) {
    q.push(state_of(i % 2 == 0 ? side::hub : side::none));
    q.push(wake_of("b"));
    q.push(gap_of("b"));
  }
  CHECK(q.places() < 200);
  CHECK(q.size() == 3);
  CHECK(all(q) == "a=first b!hub_lost #none");
}

TEST_CASE("C10: what is counted is what is resident, whatever waits") {
  if (test::sanitized) return;  // whose allocators keep more
  const auto in_use = [] {
    const auto all = ::mallinfo2();
    return all.uordblks + all.hblkhd;
  };
  const int kind = GENERATE(0, 1, 2, 3, 4, 5);
  const auto before = in_use();
  event_queue q(1U << 30U);
  for (int i = 0; i < 20'000; ++i) {
    const auto number = std::to_string(i);
    switch (kind) {
      case 0:
        q.push(wake_of("c", number));
        break;
      case 1:
        q.push(wake_of("a channel with a name of thirty", std::string(100, 'x')));
        break;
      case 2:
        q.push(wake_of(number));
        break;
      case 3:
        q.push(gap_of("a channel whose name is longer than that: " + number));
        break;
      case 4:
        q.push(wake_of(number, number));
        break;
      default: {
        event e = state_of(side::none);
        e.what = event::kind::refused;
        e.channel = number;
        e.reason = "forbidden: the hub's rules have changed";
        q.push(std::move(e));
      }
    }
  }
  const auto resident = in_use() - before;
  INFO("kind " << kind << ": counted " << q.bytes() << ", resident " << resident);
  CHECK(resident < q.bytes() + q.bytes() / 2);
  CHECK(q.bytes() < resident + resident / 2);
  all(q);
  CHECK(q.bytes() == 0);
}
