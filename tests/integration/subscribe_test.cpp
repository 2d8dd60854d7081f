#include <catch2/catch.hpp>

#include <algorithm>
#include <thread>

#include "integration/rig.hpp"
#include "support/background.hpp"

using namespace pgwake::test;

TEST_CASE("S1: a sub is acked only after the server's answer, and before what was read behind it") {
  rig r({.through_proxy = true});
  auto worker = r.worker();
  r.proxy().hold_answer("LISTEN \"c\"", 2s);
  worker.sub("c");
  CHECK(worker.drain(400ms).empty());
  r.notify("c", "while the answer is held");
  worker.expect("ack", "c", 10s);
  worker.expect_wake("c", "while the answer is held");
  r.notify("c");
  worker.expect_wake("c");
}

TEST_CASE("S1: a LISTEN that was rolled back is not acked, though its CommandComplete came") {
  // In LATIN1 the second name cannot be converted: the whole batch fails after the first one's
  // CommandComplete.
  rig r({.arguments = {"--unlisten-linger", "0s"}, .encoding = "LATIN1"});
  auto worker = r.worker();
  worker.send_raw(frame_of(R"({"t":"sub","q":"first"})") + frame_of(R"({"t":"sub","q":"日本"})") +
                  frame_of(R"({"t":"sub","q":"last"})"));
  std::vector<std::string> answers;
  for (int i = 0; i < 3; ++i) {
    const auto answer = worker.next();
    REQUIRE(answer);
    if (answer->t() == "status") {
      --i;
      continue;
    }
    answers.push_back(answer->t() + " " + answer->q());
    if (answer->t() == "nack") CHECK(answer->string("sqlstate") == "22P05");
  }
  std::sort(answers.begin(), answers.end());
  CHECK(answers == std::vector<std::string>{"ack first", "ack last", "nack 日本"});
  r.notify("first");
  worker.expect_wake("first");
  r.notify("last");
  worker.expect_wake("last");
}

TEST_CASE("S2: a sub joins the LISTEN in flight; one to an active channel is acked with no round trip") {
  rig r({.through_proxy = true});
  auto a = r.worker();
  auto b = r.worker();
  r.proxy().forget_queries();
  r.proxy().hold_query("LISTEN \"c\"", 2s);
  a.sub("c");
  CHECK(a.drain(100ms).empty());
  b.sub("c");
  CHECK(b.drain(100ms).empty());
  a.expect("ack", "c", 10s);
  b.expect("ack", "c");
  CHECK(r.queries("LISTEN").size() == 1);

  r.proxy().black_hole();
  auto late = r.worker();
  const auto waited = time_of([&] { late.subscribe("c"); });
  CHECK(waited < at_load(200ms));
  r.proxy().end_black_hole();
}

TEST_CASE("S3: during an outage a v1 sub waits, and is acked after the re-LISTEN") {
  rig r({.through_proxy = true});
  auto worker = r.worker();
  worker.subscribe("before");
  r.proxy().refuse();
  r.proxy().reset_all();
  worker.await_health(false);
  worker.sub("new");
  worker.sub("before");
  CHECK(worker.drain(2s).empty());
  r.proxy().refuse(false);
  std::vector<std::string> seen;
  while (seen.size() < 3) {
    const auto got = worker.next(5s);
    REQUIRE(got);
    if (got->t() == "status") continue;
    seen.push_back(got->t() + " " + got->q() + (got->gap() ? " " + *got->gap() : ""));
  }
  std::sort(seen.begin(), seen.end());
  CHECK(seen == std::vector<std::string>{"ack before", "ack new", "wake before reconnect"});
  r.notify("new");
  worker.expect_wake("new");
}

TEST_CASE("S5, case 34: one LISTEN that fails for no fault of its own waits, the others flow") {
  rig r({.through_proxy = true});
  auto worker = r.worker();
  worker.subscribe("old");
  r.proxy().fail_query("LISTEN \"stuck\"", "58P01");
  worker.send_raw(frame_of(R"({"t":"sub","q":"x1"})") + frame_of(R"({"t":"sub","q":"stuck"})") +
                  frame_of(R"({"t":"sub","q":"x2"})"));
  std::vector<std::string> acked = {worker.expect("ack").q(), worker.expect("ack").q()};
  std::sort(acked.begin(), acked.end());
  CHECK(acked == std::vector<std::string>{"x1", "x2"});
  for (const char* channel : {"old", "x1", "x2"}) {
    r.notify(channel);
    worker.expect_wake(channel);
  }
  CHECK(worker.drain(300ms).empty());
  CHECK(r.hub().logs("58P01"));
  r.proxy().clear_rules();
  worker.expect("ack", "stuck", 10s);
  r.notify("stuck");
  worker.expect_wake("stuck");
  CHECK(r.proxy().accepted() == 1);
}

TEST_CASE("S5: when every LISTEN fails the session is replaced") {
  rig r({.through_proxy = true});
  auto worker = r.worker();
  r.proxy().fail_query("LISTEN \"", "58P01");
  for (int i = 0; i < 20; ++i) worker.sub("n" + std::to_string(i));
  REQUIRE_EVENTUALLY(r.proxy().accepted() >= 2, 20s);
  r.proxy().clear_rules();
  int acks = 0;
  while (acks < 20) {
    const auto got = worker.next(10s);
    REQUIRE(got);
    CHECK(got->t() != "nack");
    acks += got->t() == "ack";
  }
}

TEST_CASE("S6: LISTENs are batched, at most 1,000 names each, apart from UNLISTENs") {
  rig r({.arguments = {"--unlisten-linger", "0s"}, .through_proxy = true});
  auto worker = r.worker();
  r.proxy().forget_queries();
  const int channels = 5000;
  std::string burst;
  for (int i = 0; i < channels; ++i) burst += frame_of(R"({"t":"sub","q":"c)" + std::to_string(i) + "\"}");
  worker.send_raw(burst);
  for (int i = 0; i < channels; ++i) worker.expect("ack", 10s);
  const auto listens = r.queries("LISTEN");
  // Frames are taken in turns of up to 128, as they arrive, and LISTENs go out in between.
  CHECK(listens.size() <= channels / 32);
  std::size_t names = 0;
  for (const auto& query : listens) {
    const auto here = count_of(query, "LISTEN \"");
    CHECK(here <= 1000);
    names += here;
  }
  CHECK(names == channels);
  worker.close();
  REQUIRE_EVENTUALLY(r.queries("UNLISTEN").size() >= 5, 10s);
  for (const auto& query : r.proxy().queries())
    if (query.find("UNLISTEN \"") != std::string::npos) {
      CHECK(count_of(query, "UNLISTEN \"") == count_of(query, "LISTEN \""));
      CHECK(count_of(query, "UNLISTEN \"") <= 1000);
    }
}

TEST_CASE("S7: a channel is UNLISTENed when its last worker has gone, after the linger") {
  rig r({.arguments = {"--unlisten-linger", "1s"}, .through_proxy = true});
  auto a = r.worker();
  auto b = r.worker();
  a.subscribe("c");
  b.subscribe("c");
  a.unsub("c");
  CHECK(a.drain(1300ms).empty());
  CHECK(r.queries("UNLISTEN").empty());
  r.notify("c");
  b.expect_wake("c");

  b.close();  // releases all it held
  CHECK(a.drain(150ms).empty());
  CHECK(r.queries("UNLISTEN").empty());
  REQUIRE_EVENTUALLY(r.queries("UNLISTEN").size() == 1, 3s);

  r.proxy().forget_queries();
  a.subscribe("c");
  CHECK(r.queries("LISTEN").size() == 1);
  r.notify("c");
  a.expect_wake("c");
  // Held again before the linger is over: neither UNLISTEN nor LISTEN.
  a.unsub("c");
  a.subscribe("c");
  CHECK(a.drain(1300ms).empty());
  CHECK(r.queries("LISTEN").size() == 1);
  CHECK(r.queries("UNLISTEN").empty());
}

TEST_CASE("S7: an UNLISTEN never overtakes a new sub of the same channel") {
  rig r({.arguments = {"--unlisten-linger", "1ms"}});
  auto worker = r.worker();
  auto publisher = r.publisher();
  for (int i = 0; i < 300; ++i) {
    worker.subscribe("c");
    publisher.notify("c", std::to_string(i));
    worker.expect_wake("c", std::to_string(i));
    worker.unsub("c");
    std::this_thread::sleep_for(std::chrono::microseconds(i * 37 % 4000));
  }
}

TEST_CASE("S8, case 42: every sub has its own answer, in order, even if it was unsubscribed meanwhile") {
  rig r({.through_proxy = true});
  auto worker = r.worker();
  r.proxy().hold_query("LISTEN \"c\"", 300ms, -1);
  worker.send_raw(frame_of(R"({"t":"sub","q":"c"})") + frame_of(R"({"t":"unsub","q":"c"})") +
                  frame_of(R"({"t":"sub","q":"c"})"));
  worker.expect("ack", "c");
  worker.expect("ack", "c");
  r.notify("c", "after the second");
  worker.expect_wake("c", "after the second");
  CHECK(worker.until_pong().empty());
}

TEST_CASE("S8: sub does not nest; after the ack of a later sub no wake of an unsubscribed channel comes") {
  rig r;
  auto worker = r.worker();
  worker.subscribe("c");
  worker.subscribe("c");
  worker.unsub("c");
  worker.subscribe("d");
  r.notify("c", "too late");
  r.notify("d", "in time");
  worker.expect_wake("d", "in time");
  CHECK(worker.until_pong().empty());
}

TEST_CASE("case 6: an idle daemon acks at once and uses no CPU") {
  rig r;
  auto worker = r.worker();
  std::vector<milliseconds> waits;
  for (int i = 0; i < 200; ++i) waits.push_back(time_of([&] { worker.subscribe("c" + std::to_string(i)); }));
  std::sort(waits.begin(), waits.end());
  CHECK(waits[197] < at_load(50ms));
  const auto before = r.hub().child().cpu_time();
  CHECK(worker.drain(3s).empty());
  CHECK(r.hub().child().cpu_time() - before <= 30ms);
}

TEST_CASE("case 7: a stream on one channel is not delayed by subs and unsubs of another") {
  rig r({.arguments = {"--unlisten-linger", "0s"}});
  auto reader = r.worker();
  reader.subscribe("q1");
  background churn([&](const auto& stop) {
    auto worker = r.worker();
    for (int i = 0; i < 1000 && !stop; ++i) {
      worker.subscribe("q2", 10s);
      worker.unsub("q2");
    }
  });
  const int total = 2000;
  clock::time_point published;
  background publishing([&](const auto&) {
    auto publisher = r.publisher();
    const auto begin = clock::now();
    for (int i = 0; i < total; i += 20) {
      publisher.exec("SELECT pg_notify('q1', n::text) FROM generate_series(" + std::to_string(i) + ", " +
                     std::to_string(i + 19) + ") n");
      std::this_thread::sleep_until(begin + milliseconds(i / 2));
    }
    published = clock::now();
  });
  for (int i = 0; i < total; ++i) reader.expect_wake("q1", std::to_string(i));
  const auto read = clock::now();
  publishing.stop();
  churn.stop();
  CHECK(read - published < at_load(100ms));
}

TEST_CASE(
    "case 8: equal notifications in one transaction are one, in four they are four, distinct ones keep "
    "order") {
  rig r;
  auto worker = r.worker();
  worker.subscribe("c");
  const std::string one = "NOTIFY c, 'same'; NOTIFY c, 'same'; NOTIFY c, 'same'; NOTIFY c, 'same'";
  r.sql("BEGIN; " + one + "; COMMIT");
  worker.expect_wake("c", "same");
  for (int i = 0; i < 4; ++i) r.sql("NOTIFY c, 'same'");
  for (int i = 0; i < 4; ++i) worker.expect_wake("c", "same");
  r.sql("BEGIN; NOTIFY c, '1'; NOTIFY c, '2'; NOTIFY c, '3'; NOTIFY c, '4'; COMMIT");
  for (const char* payload : {"1", "2", "3", "4"}) worker.expect_wake("c", payload);
  r.sql("NOTIFY c, 'end'");
  worker.expect_wake("c", "end");
}
