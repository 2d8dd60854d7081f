#include "daemon/core/wake_run.hpp"

#include <catch2/catch.hpp>

using namespace pgwaked;
using pgwake::steady_time;
using pgwake::wake_view;
using namespace std::chrono_literals;

namespace {

constexpr steady_time t0{};

// One channel's wakes into a few outboxes, encoded by a dialect that writes the payload alone and counts.
class payloads final : public dialect {
 public:
  std::string name(std::string_view channel) const override { return std::string(channel); }
  void encode(std::string&, const pgwake::from_hub&) const override {}
  void encode(std::string& out, const wake_view& wake) const override {
    ++encoded;
    out += *wake.payload;
    out += ';';
  }
  mutable int encoded = 0;
};

struct rig {
  payloads plain;
  wake_run run;
  outbox a;
  outbox b;
  outbox_marks marks;
  int channel = 0;
  int other = 0;

  void wake(std::string_view payload, std::initializer_list<outbox*> to, const int* on = nullptr) {
    wake_view view;
    view.q = "c";
    view.payload = payload;
    run.next(on != nullptr ? on : &channel, view);
    for (auto* box : to) {
      const auto [bytes, begin] = run.in(0, plain);
      box->ephemeral(marks, bytes, t0, begin);
    }
  }
  static std::vector<std::string> pieces(const outbox& box) {
    std::vector<std::string_view> views;
    box.gather(views, SIZE_MAX, SIZE_MAX);
    return {views.begin(), views.end()};
  }
};

using texts = std::vector<std::string>;

}  // namespace

TEST_CASE("D5: a wake is encoded once; what follows it in the same turn is one run in every outbox") {
  rig r;
  r.wake("one", {&r.a, &r.b});
  r.wake("two", {&r.a, &r.b});
  r.wake("three", {&r.a, &r.b});
  CHECK(r.plain.encoded == 3);
  CHECK(rig::pieces(r.a) == texts{"one;two;three;"});
  CHECK(rig::pieces(r.b) == texts{"one;two;three;"});
  CHECK(r.a.frames() == 3);
  CHECK(r.a.ephemeral_frames() == 3);
  CHECK(r.a.bytes() == 14);
  CHECK(r.a.ephemeral_memory() == 14 + outbox::overhead);
}

TEST_CASE("D1: an outbox that missed a frame of a run, or got something between, keeps its own order") {
  rig r;
  r.wake("one", {&r.a, &r.b});
  r.wake("two", {&r.a});
  r.b.control(std::make_shared<const std::string>("pong;"), t0);
  r.wake("three", {&r.a, &r.b});
  r.wake("four", {&r.a, &r.b});
  CHECK(rig::pieces(r.a) == texts{"one;two;three;four;"});
  CHECK(rig::pieces(r.b) == texts{"one;", "pong;", "three;four;"});
  CHECK(r.b.frames() == 4);
}

TEST_CASE("wake run: ends with the turn, with the channel and at its bound") {
  rig r;
  r.wake("one", {&r.a});
  SECTION("the turn") {
    r.run.end();
    r.wake("two", {&r.a});
    CHECK(rig::pieces(r.a) == texts{"one;", "two;"});
  }
  SECTION("the channel") {
    r.wake("other", {&r.a}, &r.other);
    r.wake("two", {&r.a});
    CHECK(rig::pieces(r.a) == texts{"one;", "other;", "two;"});
  }
  SECTION("the bound") {
    const std::string large(7'000, 'x');
    for (int i = 0; i < 3; ++i) r.wake(large, {&r.a});
    const auto all = rig::pieces(r.a);
    CHECK(all.size() == 2);
    CHECK(all[0] + all[1] == "one;" + large + ";" + large + ";" + large + ";");
  }
}

TEST_CASE("wake run: grows behind an outbox that has written a part of it") {
  rig r;
  r.wake("one", {&r.a});
  r.wake("two", {&r.a});
  r.a.written(6);
  r.wake("a payload so long that the bytes move", {&r.a});
  CHECK(rig::pieces(r.a) == texts{"o;a payload so long that the bytes move;"});
  CHECK(r.a.frames() == 3);
  r.a.written(2 + 38);
  CHECK(r.a.empty());
  CHECK(r.a.frames() == 0);
  CHECK(r.a.bytes() == 0);
  CHECK(r.a.ephemeral_frames() == 0);
}

TEST_CASE("outbox: each frame of a run that is gone is told how long it waited") {
  rig r;
  r.wake("one", {&r.a});
  r.wake("two", {&r.a});
  duration_histogram waited;
  r.a.written(8, t0 + 3ms, &waited);
  std::uint64_t told = 0;
  for (const auto n : waited.counts()) told += n;
  CHECK(told == 2);
  CHECK(waited.sum_seconds() == Approx(0.006));
}
