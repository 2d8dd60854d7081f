#include "daemon/core/outbox.hpp"

#include <catch2/catch.hpp>

using namespace pgwaked;
using pgwake::steady_time;
using verdict = outbox::verdict;
using namespace std::chrono_literals;

namespace {

constexpr steady_time t0{};

frame_ptr frame(const std::string& text) { return std::make_shared<const std::string>(text); }

class text_frames final : public wake_frames {
 public:
  text_frames(const std::string& text, int pid)
      : with_(frame(text + "@" + std::to_string(pid) + ";")), without_(frame(text + ";")) {
    by = pid;
  }
  const frame_ptr& as_is() override { return ++encoded, with_; }
  const frame_ptr& without_by() override { return ++encoded, without_; }
  int encoded = 0;

 private:
  frame_ptr with_;
  frame_ptr without_;
};

// One outbox whose frames are words that end in `;`, and two channels.
struct rig {
  outbox box;
  outbox_marks c;
  outbox_marks d;

  verdict durable(outbox_marks& marks, const std::string& text, int by = 1) {
    text_frames f(text, by);
    return box.durable(marks, f, t0);
  }
  std::string waiting() const {
    std::vector<std::string_view> views;
    box.gather(views, SIZE_MAX, SIZE_MAX);
    std::string out;
    for (const auto v : views) out += v;
    return out;
  }
};

}  // namespace

TEST_CASE("D2: a durable wake is coalesced, never dropped") {
  rig r;
  CHECK(r.durable(r.c, "c") == verdict::queued);
  for (int i = 0; i < 10'000; ++i) CHECK(r.durable(r.c, "c") == verdict::coalesced);
  CHECK(r.durable(r.d, "d") == verdict::queued);
  CHECK(r.waiting() == "c@1;d@1;");
  CHECK(r.box.frames() == 2);
  r.box.written(4);
  CHECK(r.durable(r.c, "c") == verdict::queued);
  CHECK(r.waiting() == "d@1;c@1;");
}

TEST_CASE("D2: a frame partly written counts as gone") {
  rig r;
  r.durable(r.c, "c");
  r.box.written(1);
  CHECK(r.waiting() == "@1;");
  CHECK(r.durable(r.c, "c") == verdict::queued);
  CHECK(r.waiting() == "@1;c@1;");
  CHECK(r.durable(r.c, "c", 9) == verdict::coalesced);  // into the second, whole one
  CHECK(r.waiting() == "@1;c;");
}

TEST_CASE("D2: two that differ in `by` merge into one without it") {
  rig r;
  r.durable(r.c, "c", 1);
  CHECK(r.durable(r.c, "c", 1) == verdict::coalesced);
  CHECK(r.waiting() == "c@1;");
  CHECK(r.durable(r.c, "c", 2) == verdict::coalesced);
  CHECK(r.waiting() == "c;");
  CHECK(r.durable(r.c, "c", 1) == verdict::coalesced);
  CHECK(r.waiting() == "c;");
  CHECK(r.box.bytes() == 2);
}

TEST_CASE("D2: an ack of that channel, a gap or a fence behind it: the next is appended") {
  SECTION("ack") {
    rig r;
    r.durable(r.c, "c");
    r.box.ack(r.c, frame("ack c;"), t0);
    CHECK(r.durable(r.c, "c") == verdict::queued);
    CHECK(r.waiting() == "c@1;ack c;c@1;");
    CHECK(r.durable(r.c, "c") == verdict::coalesced);
  }
  SECTION("an ack of another channel does not matter") {
    rig r;
    r.durable(r.c, "c");
    r.box.ack(r.d, frame("ack d;"), t0);
    CHECK(r.durable(r.c, "c") == verdict::coalesced);
  }
  SECTION("gap") {
    rig r;
    r.durable(r.c, "c");
    r.box.ephemeral(r.c, frame("e;"), t0);
    CHECK(r.box.gap(r.c, frame("gap c;"), t0) == verdict::queued);
    CHECK(r.durable(r.c, "c") == verdict::queued);
    CHECK(r.waiting() == "c@1;e;gap c;c@1;");
  }
  SECTION("fence") {
    rig r;
    r.durable(r.c, "c");
    r.box.fence(frame("fence;"), t0);
    CHECK(r.durable(r.c, "c") == verdict::queued);
    CHECK(r.waiting() == "c@1;fence;c@1;");
  }
  SECTION("an ephemeral wake, a status or a pong does not matter") {
    rig r;
    r.durable(r.c, "c");
    r.box.ephemeral(r.c, frame("e;"), t0);
    r.box.status(frame("s;"), true, t0);
    r.box.control(frame("pong;"), t0);
    CHECK(r.durable(r.c, "c") == verdict::coalesced);
    CHECK(r.waiting() == "c@1;e;s;pong;");
  }
}

TEST_CASE("D2: a gap absorbs a waiting durable wake, never the reverse") {
  rig r;
  r.durable(r.d, "d");
  r.durable(r.c, "c");
  CHECK(r.box.gap(r.c, frame("gap c;"), t0) == verdict::coalesced);
  CHECK(r.waiting() == "d@1;gap c;");
  CHECK(r.durable(r.c, "c") == verdict::queued);
  CHECK(r.waiting() == "d@1;gap c;c@1;");
  CHECK(r.durable(r.c, "c") == verdict::coalesced);
  CHECK(r.box.gap(r.c, frame("gap c;"), t0) == verdict::coalesced);
}

TEST_CASE("G1: a gap never takes a place before what belongs to the time before it") {
  SECTION("an ephemeral wake of the old session") {
    rig r;
    r.durable(r.c, "c");
    r.box.ephemeral(r.c, frame("e;"), t0);
    r.box.gap(r.c, frame("gap c;"), t0);
    CHECK(r.waiting() == "c@1;e;gap c;");
  }
  SECTION("an ack") {
    rig r;
    r.box.gap(r.c, frame("gap c;"), t0);
    r.box.ack(r.c, frame("ack c;"), t0);
    CHECK(r.box.gap(r.c, frame("gap c;"), t0) == verdict::queued);
    CHECK(r.waiting() == "gap c;ack c;gap c;");
  }
  SECTION("a fence") {
    rig r;
    r.durable(r.c, "c");
    r.box.fence(frame("fence;"), t0);
    CHECK(r.box.gap(r.c, frame("gap c;"), t0) == verdict::queued);
    CHECK(r.waiting() == "c@1;fence;gap c;");
  }
  SECTION("a frame partly written") {
    rig r;
    r.box.gap(r.c, frame("gap c;"), t0);
    r.box.written(2);
    CHECK(r.box.gap(r.c, frame("gap c;"), t0) == verdict::queued);
    CHECK(r.waiting() == "p c;gap c;");
  }
}

TEST_CASE("D1: ephemeral wakes keep their order and are never merged") {
  rig r;
  for (const auto* text : {"e1;", "e2;", "e2;", "e3;"}) r.box.ephemeral(r.c, frame(text), t0);
  r.box.ephemeral(r.d, frame("f;"), t0);
  CHECK(r.waiting() == "e1;e2;e2;e3;f;");
  CHECK(r.box.ephemeral_frames() == 5);
  CHECK(r.box.ephemeral_memory() == 14 + 5 * outbox::overhead);
}

TEST_CASE(
    "D7: at most one status waits, in its first place; an unhealthy one is not replaced by a healthy one") {
  rig r;
  CHECK(r.box.status(frame("healthy;"), true, t0) == verdict::queued);
  r.box.control(frame("pong;"), t0);
  CHECK(r.box.status(frame("fine;"), true, t0) == verdict::coalesced);
  CHECK(r.waiting() == "fine;pong;");
  CHECK(r.box.status(frame("ill;"), false, t0) == verdict::coalesced);
  CHECK(r.box.status(frame("worse;"), false, t0) == verdict::coalesced);
  CHECK(r.waiting() == "worse;pong;");
  SECTION("the healthy one comes when the other is gone, and counts from then on") {
    CHECK(r.box.status(frame("healthy;"), true, t0) == verdict::coalesced);
    CHECK(r.box.status(frame("fine;"), true, t0) == verdict::coalesced);
    CHECK(r.waiting() == "worse;pong;");
    r.box.written(1);
    CHECK(r.waiting() == "orse;pong;fine;");
    CHECK(r.box.bytes() == 16);  // what is cut counts in full
    r.box.written(15);
    CHECK(r.box.empty());
    CHECK(r.box.control_memory() == 0);
  }
  SECTION("unless it is ill again by then") {
    CHECK(r.box.status(frame("healthy;"), true, t0) == verdict::coalesced);
    CHECK(r.box.status(frame("ill;"), false, t0) == verdict::coalesced);
    r.box.written(4);
    CHECK(r.waiting() == "pong;");
  }
  SECTION("one of which a byte was sent does not wait") {
    r.box.written(1);
    CHECK(r.box.status(frame("healthy;"), true, t0) == verdict::queued);
    CHECK(r.waiting() == "orse;pong;healthy;");
  }
}

TEST_CASE("D7: what counts towards which bound") {
  rig r;
  r.durable(r.c, "c");                       // 4 bytes
  r.box.ephemeral(r.c, frame("12345"), t0);  // 5
  r.box.control(frame("pong;!"), t0);        // 6
  r.box.status(frame("status!"), true, t0);  // 7
  r.box.ack(r.d, frame("ack d..."), t0);     // 8
  r.box.gap(r.d, frame("gap d...."), t0);    // 9
  r.box.fence(frame("fence....."), t0);      // 10
  CHECK(r.box.bytes() == 49);
  CHECK(r.box.memory() == 49 + 7 * outbox::overhead);
  CHECK(r.box.frames() == 7);
  CHECK(r.box.ephemeral_memory() == 5 + outbox::overhead);
  CHECK(r.box.ephemeral_frames() == 1);
  CHECK(r.box.control_memory() == 31 + 4 * outbox::overhead);
  r.box.written(49);
  CHECK(r.box.empty());
  CHECK(r.box.bytes() == 0);
  CHECK(r.box.ephemeral_memory() == 0);
  CHECK(r.box.ephemeral_frames() == 0);
  CHECK(r.box.control_memory() == 0);
}

TEST_CASE("outbox: gather shows at most so many pieces and about so many bytes, from where writing stopped") {
  rig r;
  for (const auto* text : {"aaaa", "bbbb", "cccc"}) r.box.control(frame(text), t0);
  std::vector<std::string_view> views;
  r.box.gather(views, 2, 1000);
  CHECK(views == std::vector<std::string_view>{"aaaa", "bbbb"});
  views.clear();
  r.box.gather(views, 64, 1);
  CHECK(views == std::vector<std::string_view>{"aaaa"});
  r.box.written(6);
  views.clear();
  r.box.gather(views, 64, 1000);
  CHECK(views == std::vector<std::string_view>{"bb", "cccc"});
  CHECK(r.box.frames() == 2);
}

TEST_CASE("outbox: written() over several frames at once, ending in the middle of one") {
  rig r;
  std::string all;
  for (int i = 0; i < 100; ++i) {
    all += std::to_string(i) + ";";
    r.box.ephemeral(r.c, frame(std::to_string(i) + ";"), t0);
  }
  std::size_t gone = 0;
  for (std::size_t n = 0; gone < all.size(); n = (n * 7 + 3) % 23) {
    n = std::min(n, all.size() - gone);
    r.box.written(n);
    gone += n;
    REQUIRE(r.waiting() == all.substr(gone));
  }
  CHECK(r.box.empty());
}

TEST_CASE("outbox: the oldest frame's age is that of the front") {
  rig r;
  r.box.control(frame("aa"), t0 + 1s);
  r.box.control(frame("bb"), t0 + 2s);
  CHECK(r.box.oldest() == t0 + 1s);
  r.box.written(3);
  CHECK(r.box.oldest() == t0 + 2s);
}

TEST_CASE("D5: nothing is encoded for a wake that only coalesces") {
  rig r;
  text_frames first("c", 1);
  r.box.durable(r.c, first, t0);
  CHECK(first.encoded == 1);
  text_frames again("c", 1);
  r.box.durable(r.c, again, t0);
  CHECK(again.encoded == 0);
}

TEST_CASE("P12: answers go before what is held, never before what was queued earlier") {
  rig r;
  outbox_marks marks;
  const auto take = [&](std::size_t most) {
    std::vector<std::string_view> pieces;
    r.box.gather(pieces, 100, most);
    std::string all;
    for (const auto p : pieces) all += p;
    all = all.substr(0, most);
    r.box.written(all.size());
    return all;
  };
  r.box.ephemeral(marks, frame("one;"), t0);
  CHECK(take(2) == "on");
  r.box.answer(frame("A;"), t0);
  r.box.hold();
  r.box.ephemeral(marks, frame("two;"), t0);
  r.box.answer(frame("B;"), t0);
  CHECK(r.box.frames() == 4);
  CHECK(r.box.bytes() == 12);  // a frame that is half written is held whole
  CHECK(take(3) == "e;A");
  CHECK(take(100) == ";B;");
  CHECK_FALSE(r.box.sendable());
  CHECK_FALSE(r.box.empty());
  CHECK(take(100).empty());
  r.durable(r.c, "three");
  CHECK(r.durable(r.c, "three") == verdict::coalesced);
  r.box.release();
  r.box.answer(frame("C;"), t0);
  r.durable(r.d, "four");
  CHECK(take(100) == "two;three@1;C;four@1;");
  CHECK(r.box.empty());
  CHECK(r.box.bytes() == 0);
}
