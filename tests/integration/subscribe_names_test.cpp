#include <catch2/catch.hpp>

#include "integration/rig.hpp"

using namespace pgwake::test;

namespace {

// 63 bytes is the longest name PostgreSQL keeps whole.
const std::string longest(63, 'n');

std::string sub_of(const std::string& raw_json) { return R"({"t":"sub","q":)" + raw_json + "}"; }

}  // namespace

TEST_CASE("S4, case 3: any name works, byte for byte, and is never SQL") {
  rig r;
  r.sql("CREATE TABLE t()");
  auto worker = r.worker();
  const std::vector<std::string> names = {R"(x"; DROP TABLE t; --)",
                                          "Upper.Case",
                                          "upper.case",
                                          "with space",
                                          " leading",
                                          "select",
                                          "日本",
                                          "a'b",
                                          "\\",
                                          "$1",
                                          "%s",
                                          "tab\tand\nnewline",
                                          "*",
                                          "emoji \xF0\x9F\x98\x80",
                                          longest,
                                          "日本語日本語日本語日本語日本語日本語日本語"};
  for (const auto& name : names) {
    INFO(name);
    worker.subscribe(name);
    r.notify(name, "to " + name);
    worker.expect_wake(name, "to " + name);
  }
  CHECK(r.pg().value("SELECT to_regclass('t') IS NOT NULL", r.database()) == "t");
}

TEST_CASE("S4, case 4: impossible names are nacked, never sent, and harm nobody") {
  rig r({.through_proxy = true});
  auto bad = r.worker();
  auto good = r.worker();
  good.subscribe("ok");
  r.proxy().forget_queries();

  bad.send_json(sub_of(R"("")"));
  bad.send_json(sub_of(R"("a\u0000b")"));
  bad.send_json(sub_of("7"));
  bad.send_json(sub_of("\"" + longest + "x\""));
  bad.send_json(sub_of(R"(["list"])"));
  bad.send_json(sub_of("null"));

  CHECK(bad.expect("nack").q().empty());
  CHECK(bad.expect("nack").q() == std::string("a\0b", 3));
  const auto number = bad.expect("nack");
  CHECK(number.number("q") == 7);
  CHECK(bad.expect("nack").q() == longest + "x");
  const auto list = bad.expect("nack");
  CHECK(list.doc["q"].IsArray());
  const auto last = bad.expect("nack");
  CHECK(last.doc["q"].IsNull());
  CHECK(last.code() == "invalid_channel");
  CHECK_FALSE(last.string("reason").empty());
  CHECK(r.queries("LISTEN").empty());

  REQUIRE(r.terminate());
  const auto gap = good.expect("wake", "ok", 10s);
  CHECK(gap.gap() == "reconnect");
  r.notify("ok", "still woken");
  good.expect_wake("ok", "still woken");
  CHECK(bad.until_pong().empty());
}

TEST_CASE("S4: a name of more than 1,024 bytes is a protocol error") {
  rig r;
  auto worker = r.worker();
  auto other = r.worker();
  other.subscribe("ok");
  worker.sub(std::string(1024, 'n'));
  CHECK(worker.expect("nack").code() == "invalid_channel");
  worker.sub(std::string(1025, 'n'));
  CHECK(worker.expect("bye").code() == "protocol");
  CHECK(worker.closed());
  r.notify("ok");
  other.expect_wake("ok");
}

TEST_CASE("S4: in a LATIN1 database a name that converts works, one that does not is nacked") {
  rig r({.encoding = "LATIN1"});
  auto worker = r.worker();
  worker.subscribe("caf\xC3\xA9");
  r.notify("caf\xC3\xA9", "payload \xC3\xA9");
  worker.expect_wake("caf\xC3\xA9", "payload \xC3\xA9");
  worker.sub("日本");
  const auto nack = worker.expect("nack", "日本");
  CHECK(nack.code() == "listen_failed");
  CHECK(nack.string("sqlstate") == "22P05");
  r.notify("caf\xC3\xA9");
  worker.expect_wake("caf\xC3\xA9");
}

TEST_CASE("S4: in other encodings the length of a name counts in the server's bytes") {
  const auto times = [](int count, const std::string& character) {
    std::string name;
    for (int i = 0; i < count; ++i) name += character;
    return name;
  };
  struct encoding {
    const char* name;
    std::string longest;   // 63 bytes there, or 62
    std::string too_long;  // no longer in characters than what may fit
    const char* sqlstate;
  };
  const encoding all[] = {{"LATIN1", times(63, "é"), times(64, "é"), ""},
                          {"EUC_JP", times(31, "日"), times(32, "日"), "42622"}};
  for (const auto& e : all) {
    INFO(e.name);
    rig r({.encoding = e.name});
    auto worker = r.worker();
    worker.subscribe(e.longest);
    r.notify(e.longest, "x");
    worker.expect_wake(e.longest, "x");
    worker.sub(e.too_long);
    const auto nack = worker.expect("nack", e.too_long);
    CHECK(nack.code() == "invalid_channel");
    CHECK(nack.string("sqlstate") == e.sqlstate);
    r.notify(e.longest, "y");
    worker.expect_wake(e.longest, "y");
  }
}

TEST_CASE("S4: in an EUC_TW database a name that the server cuts is nacked and not listened to") {
  rig r({.arguments = {"--unlisten-linger", "0s"}, .encoding = "EUC_TW", .through_proxy = true});
  // U+4E0C takes three bytes in UTF-8 and four in EUC_TW: 20 of them fit 63 bytes only before the conversion.
  const auto wide = [](int count) {
    std::string name;
    for (int i = 0; i < count; ++i) name += "\xE4\xB8\x8C";
    return name;
  };
  auto other = r.worker();
  auto worker = r.worker();
  other.subscribe("ok");
  worker.sub(wide(20));
  CHECK(worker.expect("nack", wide(20)).string("sqlstate") == "42622");
  REQUIRE_EVENTUALLY(!r.queries("UNLISTEN").empty(), 3s);  // what the server made of it

  // The cut form is a channel of its own; who has it keeps it.
  other.subscribe(wide(15));
  worker.sub(wide(20));
  worker.expect("nack", wide(20));
  r.notify("ok");
  other.expect_wake("ok");
  r.notify(wide(15), "cut");
  other.expect_wake(wide(15), "cut");
  CHECK(worker.until_pong().empty());
}

TEST_CASE("S4: names are compared as the server has them, with no notice to tell") {
  // EUC_JP: é takes three bytes there (two here), and U+00A6 and U+FFE4 are one character, the second.
  auto& pg = cluster::shared();
  const auto database = pg.new_database("EUC_JP");
  pg.exec("DROP ROLE IF EXISTS quiet");
  pg.exec("CREATE ROLE quiet LOGIN");
  pg.exec("ALTER ROLE quiet SET client_min_messages = warning");
  hub_daemon hub({.database = pg.conninfo(database, "quiet"),
                  .arguments = {"--probe-interval", "300ms", "--unlisten-linger", "0s"}});
  std::string accents;
  for (int i = 0; i < 31; ++i) accents += "é";
  const std::string broken_bar = "\xC2\xA6";
  const std::string wide_bar = "\xEF\xBF\xA4";
  auto other = hub.connect_v1();
  auto worker = hub.connect_v1();
  const auto cut = accents.substr(0, 42);  // 21 of them: 63 bytes there
  other.subscribe(cut);
  other.subscribe(wide_bar);
  worker.sub(accents);
  CHECK(worker.expect("nack", accents).code() == "invalid_channel");
  worker.sub(broken_bar);
  const auto nack = worker.expect("nack", broken_bar);
  CHECK(nack.code() == "invalid_channel");
  CHECK(nack.string("reason").find(wide_bar) != std::string::npos);
  worker.unsub(accents);
  worker.unsub(broken_bar);
  CHECK(other.drain(1s).empty());  // probes have counted the channels, and found them right
  for (const auto& name : {cut, wide_bar}) {
    pg.notify(name, "x", database);
    other.expect_wake(name, "x");
  }
  pg.notify(broken_bar, "y", database);
  other.expect_wake(wide_bar, "y");
}

TEST_CASE("S5: names good and bad in one burst each get their own answer") {
  rig r({.encoding = "LATIN1"});
  auto worker = r.worker();
  std::string burst;
  const int count = 200;
  for (int i = 0; i < count; ++i)
    burst += frame_of(sub_of("\"" + std::string(i % 10 == 3 ? "日本" : "ok") + std::to_string(i) + "\""));
  worker.send_raw(burst);
  int acks = 0;
  int nacks = 0;
  for (int i = 0; i < count; ++i) {
    auto answer = worker.next(10s);
    while (answer && answer->t() == "status") answer = worker.next(10s);
    REQUIRE(answer);
    acks += answer->t() == "ack" && answer->q().compare(0, 2, "ok") == 0;
    nacks += answer->t() == "nack" && answer->q().compare(0, 2, "ok") != 0;
  }
  CHECK(acks == count - count / 10);
  CHECK(nacks == count / 10);
  for (int i = 0; i < count; ++i)
    if (i % 10 != 3) {
      r.notify("ok" + std::to_string(i));
      worker.expect_wake("ok" + std::to_string(i));
    }
}
