#include <catch2/catch.hpp>

#include <thread>

#include "integration/rig.hpp"

using namespace pgwake::test;

namespace {

std::string length_only(unsigned long length) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8)
    bytes += static_cast<char>(length >> static_cast<unsigned>(shift) & 0xff);
  return bytes;
}

struct bad_input {
  const char* what;
  std::string bytes;
};

std::vector<bad_input> malformed() {
  const std::string deep_ok = R"({"t":"x","a":[[[[[[[1]]]]]]]})";
  std::string padded = R"({"t":"x","pad":")";
  padded += std::string(65537 - padded.size() - 2, 'p') + "\"}";
  return {
      {"length 0", length_only(0)},
      {"over 64 KiB, only the length sent", length_only(65537)},
      {"over 64 KiB, all of it", frame_of(padded)},
      {"length 2^32-1", length_only(0xffffffff)},
      {"length 2^31", length_only(0x80000000)},
      {"200,000 x [", frame_of(std::string(60000, '['))},
      {"nested deeper than 8", frame_of(R"({"t":"x","a":[[[[[[[[1]]]]]]]]})")},
      {"an array", frame_of(R"([{"t":"sub"}])")},
      {"a number", frame_of("7")},
      {"a string", frame_of("\"t\"")},
      {"null", frame_of("null")},
      {"NaN", frame_of(R"({"t":"ping","id":NaN})")},
      {"Infinity", frame_of(R"({"t":"ping","id":Infinity})")},
      {"bad UTF-8", frame_of("{\"t\":\"sub\",\"q\":\"\xff\"}")},
      {"overlong UTF-8", frame_of("{\"t\":\"sub\",\"q\":\"\xc0\xaf\"}")},
      {"a surrogate in UTF-8", frame_of("{\"t\":\"sub\",\"q\":\"\xed\xa0\x80\"}")},
      {"a lone surrogate escaped", frame_of(R"({"t":"sub","q":"\ud800"})")},
      {"not JSON", frame_of("GET / HTTP/1.1\r\n\r\n")},
      {"two objects", frame_of(R"({"t":"x"}{"t":"y"})")},
      {"a comment", frame_of(R"({"t":"x"/**/})")},
      {"a trailing comma", frame_of(R"({"t":"x",})")},
      {"a NUL behind", frame_of(std::string("{\"t\":\"x\"}\0", 10))},
      {"no t", frame_of("{}")},
      {"t no string", frame_of(R"({"t":1})")},
      {"HTTP", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"},
      {"a hello that is not first", frame_of(R"({"t":"ping","id":1})") + frame_of(R"({"t":"hello","v":1})")},
      {"a second hello", frame_of(R"({"t":"hello","v":1})") + frame_of(R"({"t":"hello","v":1})")},
      {"a name over 1,024 bytes", frame_of(R"({"t":"sub","q":")" + std::string(1025, 'x') + "\"}")}};
}

}  // namespace

TEST_CASE("frames, case 20: every malformed frame closes its connection, and nobody else notices") {
  rig r;
  auto other = r.worker();
  other.subscribe("c");
  for (const auto& input : malformed()) {
    INFO(input.what);
    auto bad = r.v0();
    try {
      bad.send_raw(input.bytes);
    } catch (const std::runtime_error&) {  // closed before all was sent
    }
    bool bye = false;
    while (const auto got = bad.next()) bye = bye || got->t() == "bye";
    CHECK(bad.at_end());
    r.notify("c", input.what);
    other.expect_wake("c", input.what);
  }
  CHECK(r.hub().running());
  CHECK(r.census() == 1);
}

TEST_CASE("frames: in mid-conversation a malformed frame ends it with bye, where that can be written") {
  rig r;
  auto worker = r.worker();
  worker.subscribe("c");
  worker.send_raw(frame_of("[]"));
  const auto bye = worker.expect("bye");
  CHECK(bye.code() == "protocol");
  CHECK_FALSE(bye.string("reason").empty());
  CHECK(worker.closed());
}

TEST_CASE(
    "frames: what is allowed works: unknown kinds and members, 64 KiB, eight levels, white space, escapes") {
  rig r;
  auto worker = r.worker();
  worker.send_json(R"({"t":"no such thing"})");
  worker.send_json(R"({"t":"x","a":[[[[[[[1]]]]]]]})");
  std::string padded = R"({"t":"sub","q":"c","pad":")";
  padded += std::string(65536 - padded.size() - 2, 'p') + "\"}";
  worker.send_json(padded);
  worker.expect("ack", "c");
  worker.send_json(" {\n\"t\" : \"s\\u0075b\" , \"q\":\"\\ud83d\\ude00\"}\t");
  worker.expect("ack", "\xF0\x9F\x98\x80");
  worker.send_json(R"({"t":"unsub","q":"never subscribed"})");
  worker.send_json(R"({"t":"unsub"})");
  CHECK(worker.until_pong().empty());
}

TEST_CASE("frames, case 18: one byte at a time, a split header, three frames in one write") {
  rig r;
  auto slow = r.v0();
  auto other = r.worker();
  const std::string bytes = frame_of(R"({"t":"hello","v":1})") + frame_of(R"({"t":"sub","q":"one"})");
  for (const char byte : bytes) {
    slow.send_raw({&byte, 1});
    std::this_thread::sleep_for(10ms);
  }
  slow.expect("welcome");
  slow.expect("ack", "one");
  const std::string next = frame_of(R"({"t":"sub","q":"two"})");
  slow.send_raw(next.substr(0, 2));
  other.subscribe("two");
  std::this_thread::sleep_for(20ms);
  slow.send_raw(next.substr(2));
  slow.expect("ack", "two");
  slow.send_raw(frame_of(R"({"t":"sub","q":"x"})") + frame_of(R"({"t":"sub","q":"y"})") +
                frame_of(R"({"t":"sub","q":"z"})"));
  // New channels all: one batch or two, but per name one ack each.
  std::string acked;
  for (int i = 0; i < 3; ++i) acked += slow.expect("ack").q();
  CHECK(acked == "xyz");
}

TEST_CASE("frames: an end of file inside a frame is just an end") {
  rig r;
  auto worker = r.worker();
  worker.send_raw("\0\0\0\x40{\"t\"");
  worker.shut_writing();
  while (const auto got = worker.next()) CHECK(got->t() != "bye");
  CHECK(worker.at_end());
  auto other = r.worker();
  other.subscribe("c");
}

TEST_CASE("hello: welcome says what is served; a worker that expects another database is told so (case 37)") {
  rig r({.arguments = {"--heartbeat", "700ms"}});
  raw_worker worker(r.hub().socket());
  const auto welcome = worker.hello("puma 3", r.database());
  CHECK(welcome.number("v") == 1);
  CHECK(welcome.string("db") == r.database());
  CHECK(welcome.string("hub").size() == 36);
  CHECK(welcome.number("heartbeat_ms") == 700);
  CHECK_FALSE(welcome.string("fence").empty());
  CHECK(welcome.string("system_id") == r.pg().value("SELECT system_identifier FROM pg_control_system()"));
  CHECK(worker.next()->t() == "status");

  raw_worker newer(r.hub().socket());
  newer.send_json(R"({"t":"hello","v":7})");
  CHECK(newer.expect("welcome").number("v") == 1);

  raw_worker lost(r.hub().socket());
  CHECK(lost.hello({}, "another").string("db") == r.database());
  const auto bye = lost.expect("bye");
  CHECK(bye.code() == "wrong_database");
  CHECK(bye.string("reason").find(r.database()) != std::string::npos);
  CHECK(lost.closed());
}

TEST_CASE("hello: before the database was ever reached it is null, and a mismatch found later says so") {
  rig r({.through_proxy = true, .until = readiness::accepting, .more_conninfo = ""});
  r.proxy().refuse();
  r.proxy().reset_all();
  hub_daemon late({.database = r.proxy().conninfo(r.database()), .until = readiness::accepting});
  raw_worker right(late.socket());
  auto welcome = right.hello({}, r.database());
  CHECK(welcome.doc["db"].IsNull());
  CHECK(welcome.doc["system_id"].IsNull());
  raw_worker wrong(late.socket());
  wrong.hello({}, "another");
  r.proxy().refuse(false);
  CHECK(wrong.expect("bye", 10s).code() == "wrong_database");
  right.await_health();
}

TEST_CASE("fence: a NOTIFY on the hub's own channel comes to the worker that it addresses") {
  rig r;
  raw_worker a(r.hub().socket());
  raw_worker b(r.hub().socket());
  const std::string token = a.hello().string("fence");
  b.hello();
  a.subscribe("c");
  b.subscribe("c");
  r.notify("c", "1");
  r.notify("pgwake.fence", token + ":42");
  r.notify("c", "2");
  a.expect_wake("c", "1");
  CHECK(a.expect("fence").id() == 42);
  a.expect_wake("c", "2");
  b.expect_wake("c", "1");
  b.expect_wake("c", "2");
  // Nonsense on that channel is nobody's.
  for (const char* payload : {"", ":", "x:1", "x", "1:1:1"}) r.notify("pgwake.fence", payload);
  r.notify("pgwake.fence", token + ":not a number");
  CHECK(b.until_pong().empty());
  CHECK(a.until_pong().empty());
}
