#include <catch2/catch.hpp>

#include <algorithm>
#include <list>
#include <map>
#include <thread>

#include "integration/rig.hpp"
#include "support/background.hpp"
#include "support/sanitizer.hpp"

using namespace pgwake::test;

namespace {

void publish(connection& to, const std::string& channel, int first, int last, int bytes = 0) {
  to.exec("SELECT pg_notify('" + channel + "', rpad(n::text, " + std::to_string(bytes) +
          " + length(n::text), '.')) FROM generate_series(" + std::to_string(first) + ", " +
          std::to_string(last) + ") n");
}

// Until the hub has taken all that was committed so far: a slow worker has it in its outbox then.
void until_taken(rig& r, connection& publisher) {
  auto worker = r.worker();
  worker.subscribe("all taken");
  publisher.notify("all taken");
  worker.expect_wake("all taken");
}

}  // namespace

TEST_CASE("D1: ephemeral wakes come in commit order across channels, exactly once") {
  rig r;
  auto worker = r.worker();
  connection direct(r.pg().conninfo(r.database()));
  for (const char* channel : {"a", "b", "c"}) {
    worker.subscribe(channel);
    direct.exec(std::string("LISTEN ") + channel);
  }
  std::list<background> publishers;
  const int each = 1000;
  for (int p = 0; p < 3; ++p)
    publishers.emplace_back([&r, p](const auto&) {
      auto to = r.publisher();
      for (int i = 0; i < each; i += 5)
        to.exec("BEGIN; NOTIFY a, '" + std::to_string(p) + "-" + std::to_string(i) + "'; NOTIFY b, '" +
                std::to_string(p) + "-" + std::to_string(i + 1) + "'; NOTIFY c, '" + std::to_string(p) + "-" +
                std::to_string(i + 2) + "'; NOTIFY a, '" + std::to_string(p) + "-" + std::to_string(i + 3) +
                "'; NOTIFY b, '" + std::to_string(p) + "-" + std::to_string(i + 4) + "'; COMMIT");
    });
  for (auto& one : publishers) one.join();
  for (int i = 0; i < 3 * each; ++i) {
    const auto expected = direct.next_notification(5s);
    REQUIRE(expected);
    const auto got = worker.expect_wake(expected->channel, expected->payload);
    CHECK(got.by() == expected->pid);
  }
  CHECK(worker.until_pong().empty());
}

TEST_CASE("D2: durable wakes coalesce while one waits untouched, per channel, and are never lost") {
  rig r;
  auto slow = r.worker();
  for (const char* channel : {"big", "a", "b"}) slow.subscribe(channel);
  auto publisher = r.publisher();
  auto second = r.publisher();
  // Fill the kernel's buffers, so that what follows waits in the hub.
  publish(publisher, "big", 1, 400, 7000);
  for (int i = 0; i < 100; ++i) publisher.notify("a");
  publisher.notify("b");
  second.notify("b");
  until_taken(r, publisher);
  for (int i = 1; i <= 400; ++i)
    CHECK(slow.expect("wake", "big").p()->substr(0, 4) == (std::to_string(i) + "....").substr(0, 4));
  const auto a = slow.expect_wake("a");
  CHECK(a.by() == publisher.backend_pid());
  const auto b = slow.expect_wake("b");
  CHECK_FALSE(b.has("by"));  // two notifiers in one wake
  publisher.notify("a");
  slow.expect_wake("a");
  CHECK(slow.until_pong().empty());
}

TEST_CASE("D2: a durable wake behind an ack of its channel does not melt into one before it") {
  rig r;
  auto slow = r.worker();
  auto quick = r.worker();
  slow.subscribe("big");
  slow.subscribe("c");
  quick.subscribe("c");
  auto publisher = r.publisher();
  publish(publisher, "big", 1, 400, 7000);
  publisher.notify("c");
  quick.expect_wake("c");  // so the hub has queued the slow one's, too
  slow.sub("c");
  slow.ping(1);
  slow.send_json(R"({"t":"ping","id":2})");
  // The sub is handled before what is published once another worker's ping was answered behind it.
  for (int i = 0; i < 3; ++i) CHECK(quick.until_pong().empty());
  std::this_thread::sleep_for(50ms);
  publisher.notify("c");
  for (int i = 0; i < 400; ++i) slow.expect("wake", "big");
  slow.expect_wake("c");
  slow.expect("ack", "c");
  CHECK(slow.expect("pong").id() == 1);
  CHECK(slow.expect("pong").id() == 2);
  slow.expect_wake("c");
}

TEST_CASE("D2: a fence, too, parts the durable wakes before it from those behind it") {
  rig r;
  raw_worker slow(r.hub().socket());
  const std::string token = slow.hello().string("fence");
  slow.subscribe("big");
  slow.subscribe("c");
  auto publisher = r.publisher();
  publish(publisher, "big", 1, 400, 7000);
  for (const char* payload : {"", "", ":7", "", ""}) {
    const bool fence = *payload != 0;
    publisher.notify(fence ? "pgwake.fence" : "c", fence ? token + payload : "");
  }
  until_taken(r, publisher);
  for (int i = 0; i < 400; ++i) slow.expect("wake", "big");
  slow.expect_wake("c");
  CHECK(slow.expect("fence").id() == 7);
  slow.expect_wake("c");
  CHECK(slow.until_pong().empty());
}

TEST_CASE("D2: a gap absorbs the durable wake that waits, and what is newer comes behind it") {
  rig r;
  auto slow = r.worker();
  auto quick = r.worker();
  for (const char* channel : {"big", "c"}) slow.subscribe(channel);
  quick.subscribe("c");
  auto publisher = r.publisher();
  publish(publisher, "big", 1, 400, 7000);
  publisher.notify("c");
  quick.expect_wake("c");
  REQUIRE(r.terminate());
  CHECK(quick.expect("wake", "c", 10s).gap() == "reconnect");
  publisher.notify("c");
  publisher.notify("c");
  quick.expect_wake("c");
  until_taken(r, publisher);
  for (int i = 0; i < 400; ++i) slow.expect("wake", "big");
  std::string seen;
  for (const auto& wake : slow.until_pong())
    if (wake.q() == "c") seen += wake.gap() ? "gap " : "wake ";
  CHECK(seen == "gap wake ");
}

TEST_CASE("D3: a worker too far behind is evicted, named in the log, and harms nobody") {
  const bool by_bytes = GENERATE(true, false);
  rig r({.arguments = by_bytes ? std::vector<std::string>{"--outbox-max-bytes", "1MiB"}
                               : std::vector<std::string>{"--outbox-max-frames", "2000"}});
  auto slow = r.worker("laggard");
  auto quick = r.worker("quick");
  slow.subscribe("c");
  quick.subscribe("c");
  auto publisher = r.publisher();
  // In steps that the quick one keeps up with.
  const int total = by_bytes ? 400 : 20000;
  const int step = total / 40;
  for (int first = 1; first <= total; first += step) {
    publish(publisher, "c", first, first + step - 1, by_bytes ? 7000 : 0);
    for (int i = 0; i < step; ++i) quick.expect("wake", "c");
  }
  CHECK(quick.until_pong().empty());
  CHECK(r.hub().child().wait_for_err("evicted", 5s));  // before it is looked at, since that reads
  CHECK(slow.closed());
  CHECK(r.hub().logs("laggard"));
  CHECK(r.census() == 1);
  // Room for it again.
  auto again = r.worker("laggard");
  again.subscribe("c");
  r.notify("c", "x");
  again.expect_wake("c", "x");
}

TEST_CASE("D1 D4: a burst that the hub finds all at once is handed out in turns, and its session lives") {
  rig r;
  auto worker = r.worker();
  worker.subscribe("c");
  const auto backends = r.backends();
  auto publisher = r.publisher();
  r.hub().child().signal(SIGSTOP);
  publish(publisher, "c", 1, 1'500, 7'000);  // many times what one look hands out
  r.hub().child().signal(SIGCONT);
  for (int i = 1; i <= 1'500; ++i)
    CHECK(worker.expect("wake", "c", 10s).p()->substr(0, 5) == (std::to_string(i) + ".....").substr(0, 5));
  CHECK(r.backends() == backends);
}

TEST_CASE("D4, case 5: workers that stand still hold up neither PostgreSQL nor the notify queue") {
  rig r;
  std::vector<raw_worker> stopped;
  for (int i = 0; i < 10; ++i) {
    stopped.push_back(r.worker());
    stopped.back().subscribe("c");
  }
  auto publisher = r.publisher();
  publish(publisher, "c", 1, 4000, 7000);
  REQUIRE_EVENTUALLY(r.pg().value("SELECT pg_notification_queue_usage() = 0") == "t", 3s);
  const auto idle = [&] {
    return r.pg().value(
               "SELECT backend_xmin IS NULL AND xact_start IS NULL FROM pg_stat_activity WHERE pid = " +
               std::to_string(r.backends().at(0))) == "t";
  };
  REQUIRE_EVENTUALLY(idle(), 10s);
  auto other = r.worker();
  other.subscribe("d");
  r.notify("d");
  CHECK(time_of([&] { other.expect_wake("d"); }) < at_load(200ms));
}

TEST_CASE("D6, case 32: a payload arrives byte for byte, in both dialects") {
  rig r({.arguments = {"--queue-template", "{}"}});
  auto modern = r.worker();
  auto old = r.v0();
  modern.subscribe("c");
  old.sub("c");
  old.expect("ack", "c");
  std::string controls;
  for (char c = 1; c < 32; ++c) controls += c;
  std::string large;
  while (large.size() < 7999) large += "\x01\"\\\n";
  large.resize(7999);
  const std::vector<std::string> payloads = {
      "</script>",
      "\xE2\x80\xA8\xE2\x80\xA9",
      "\r\n",
      "\\\\ \\\" \\u0041",
      "emoji \xF0\x9F\x98\x80\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB",
      controls,
      "\x7F",
      " ",
      "null",
      "{\"p\":null}",
      std::string(7999, 'x'),
      large,
      "\xEF\xBB\xBF bom",
      "\xEF\xBF\xBD",
      "\xF4\x8F\xBF\xBF"};
  for (const auto& payload : payloads) {
    r.notify("c", payload);
    modern.expect_wake("c", payload);
    old.expect_wake("c", payload);
  }
}

TEST_CASE(
    "D6: bytes that are not UTF-8 reach v1 workers as p64, v0 workers with U+FFFD, and cost no session") {
  rig r({.arguments = {"--queue-template", "{}"}, .encoding = "SQL_ASCII"});
  auto modern = r.worker();
  auto old = r.v0();
  modern.subscribe("c");
  old.sub("c");
  old.expect("ack", "c");
  const auto backend = r.backends();
  r.notify("c", "caf\xE9 \xFF!");
  const auto wake = modern.expect("wake", "c");
  CHECK_FALSE(wake.p());
  CHECK(wake.string("p64") == "Y2Fm6SD/IQ==");
  CHECK_FALSE(wake.gap());
  old.expect_wake("c", "caf\xEF\xBF\xBD \xEF\xBF\xBD!");
  r.notify("c", "caf\xC3\xA9");
  modern.expect_wake("c", "caf\xC3\xA9");
  old.expect_wake("c", "caf\xC3\xA9");
  CHECK(r.backends() == backend);
}

TEST_CASE("D6: in a WIN1252 database a byte without meaning does not deafen the hub for good") {
  rig r({.encoding = "WIN1252"});
  auto worker = r.worker();
  worker.subscribe("c");
  // PostgreSQL itself ends a UTF8 session over it (22P05); then a gap is owed.
  r.sql("SELECT set_config('client_encoding', 'WIN1252', false)");
  r.sql("SELECT pg_notify('c', convert_from('\\x81'::bytea, 'WIN1252'))");
  r.sql("RESET client_encoding");
  const auto next = worker.expect("wake", "c", 10s);
  if (!next.p()) CHECK(next.gap() == "reconnect");
  r.notify("c", "after");
  worker.expect_wake("c", "after", 5s);
}

TEST_CASE("D7, case 41: a worker that asks without reading is no longer read, and the hub stays small") {
  rig r;
  auto greedy = r.worker();
  auto other = r.worker();
  other.subscribe("c");
  const long before = r.hub().child().rss_kib();
  background asking([&](const auto& stop) {
    try {
      std::string burst;
      for (int i = 0; i < 100; ++i)
        burst += frame_of(R"({"t":"sub","q":"same"})") + frame_of(R"({"t":"ping","id":1})");
      for (int i = 0; i < 1000 && !stop; ++i) greedy.send_raw(burst);
    } catch (const std::runtime_error&) {  // the hub has not read for long: just right
    }
  });
  for (int i = 0; i < 20; ++i) {
    r.notify("c", std::to_string(i));
    const auto waited = time_of([&] { other.expect_wake("c", std::to_string(i)); });
    CHECK(waited < at_load(200ms));
    std::this_thread::sleep_for(50ms);
  }
  if (!sanitized) CHECK(r.hub().child().rss_kib() - before < 4096);
  // Once it reads it is served.
  std::size_t answers = 0;
  while (greedy.next(500ms)) ++answers;
  asking.stop();
  CHECK(answers > 1000);
  CHECK_FALSE(greedy.at_end());
}

TEST_CASE("D7: acks, pongs and wakes keep their place in one queue") {
  rig r;
  auto worker = r.worker();
  worker.subscribe("c");
  auto publisher = r.publisher();
  for (int i = 0; i < 50; ++i) {
    publisher.notify("c", std::to_string(i));
    worker.expect_wake("c", std::to_string(i));
    worker.send_raw(frame_of(R"({"t":"ping","id":1})") + frame_of(R"({"t":"sub","q":"c"})") +
                    frame_of(R"({"t":"sub","q":""})") + frame_of(R"({"t":"ping","id":2})"));
    CHECK(worker.expect("pong").id() == 1);
    worker.expect("ack", "c");
    worker.expect("nack", "");
    CHECK(worker.expect("pong").id() == 2);
  }
}

TEST_CASE("D7: however long a worker does not read, one status waits for it") {
  rig r({.arguments = {"--heartbeat", "100ms"}});
  auto slow = r.worker();
  auto quick = r.worker();
  slow.subscribe("big");
  auto publisher = r.publisher();
  publish(publisher, "big", 1, 400, 7000);
  for (int beats = 0; beats < 15; ++beats) quick.expect("status");
  slow.ping(1);
  int statuses = 0;
  for (int wakes = 0;;) {
    const auto got = slow.next();
    REQUIRE(got);
    if (got->t() == "pong") break;
    wakes += got->t() == "wake";
    statuses += got->t() == "status" && wakes > 0;
  }
  CHECK(statuses >= 1);
  CHECK(statuses <= 3);
}

TEST_CASE("D8: past the total of all outboxes the fullest worker goes first") {
  rig r({.arguments = {"--outbox-total-max-bytes", "4MiB"}});
  auto fullest = r.worker("fullest");
  auto other = r.worker("other");
  fullest.subscribe("c");
  fullest.subscribe("d");
  other.subscribe("d");
  auto publisher = r.publisher();
  publish(publisher, "c", 1, 350, 7000);
  publish(publisher, "d", 1, 200, 7000);
  CHECK(r.hub().child().wait_for_err("evicted", 3s));  // before either reads
  CHECK(fullest.closed());
  for (int i = 0; i < 200; ++i) other.expect("wake", "d");
  CHECK(other.until_pong().empty());
  CHECK(r.hub().logs("fullest"));
}

TEST_CASE("D8: the memory that a backlog took is given back once it is gone") {
  rig r({.arguments = {"--outbox-max-bytes", "64MiB"}});
  const long before = r.hub().child().rss_kib();
  std::vector<raw_worker> stopped;
  auto publisher = r.publisher();
  for (int i = 0; i < 4; ++i) {
    const auto channel = "c" + std::to_string(i);
    stopped.push_back(r.worker(channel));
    stopped.back().subscribe(channel);
    publish(publisher, channel, 1, 3000, 7000);
  }
  if (!sanitized) CHECK(eventually(10s, [&] { return r.hub().child().rss_kib() > before + 60'000; }));
  stopped.clear();
  if (!sanitized) CHECK(eventually(10s, [&] { return r.hub().child().rss_kib() < before + 4'000; }));
}

TEST_CASE("case 22: workers that close in the middle of a fan-out harm nobody") {
  rig r;
  auto stays = r.worker();
  stays.subscribe("c");
  auto publisher = r.publisher();
  for (int round = 0; round < 5; ++round) {
    std::vector<raw_worker> leaving;
    for (int i = 0; i < 10; ++i) {
      leaving.push_back(r.worker());
      leaving.back().subscribe("c");
    }
    publisher.send("SELECT pg_notify('c', n::text || repeat('.', 1000)) FROM generate_series(1, 1000) n");
    for (auto& one : leaving) {
      one.expect("wake", "c");
      one.close();
    }
    for (int i = 0; i < 1000; ++i) stays.expect("wake", "c", 10s);
    publisher = r.publisher();
  }
  CHECK(r.hub().running());
  CHECK(stays.until_pong().empty());
}

TEST_CASE(
    "G1, G2: after an outage each subscription gets a gap before anything newer, and then all that is "
    "committed") {
  rig r;
  auto worker = r.worker();
  worker.subscribe("a");
  worker.subscribe("b");
  for (int i = 0; i < 10; ++i) {
    REQUIRE(r.terminate());
    std::map<std::string, int> seen;  // 1: the gap, 2: what was sent on having it
    for (int frames = 0; frames < 4; ++frames) {
      const auto wake = worker.expect("wake", 10s);
      INFO(wake.text);
      const int stage = ++seen[wake.q()];
      CHECK(wake.gap().has_value() == (stage == 1));
      if (stage == 1) r.notify(wake.q(), "after the gap");
    }
    CHECK(seen == std::map<std::string, int>{{"a", 2}, {"b", 2}});
    CHECK(worker.until_pong().empty());
  }
}
