#include "common/message_codec.hpp"

#include <catch2/catch.hpp>

#include "unit/core/describe.hpp"

using namespace pgwake;
using pgwake::test::describe;

namespace {

std::string json_of(const auto& message) {
  std::string out;
  encode(out, message);
  std::string header(frame_header, '\0');
  put_frame_header(header, 0, out.size() - frame_header);
  REQUIRE(out.substr(0, frame_header) == header);
  return out.substr(frame_header);
}

template <typename Message>
Message decoded(std::string_view json) {
  Message out;
  std::string why;
  INFO(json);
  INFO(why);
  REQUIRE(decode(json, out, why));
  return out;
}

welcome some_welcome() {
  welcome w;
  w.hub = "uuid";
  w.version = "0.1.0";
  w.db = "shop";
  w.system_id = "7";
  w.fence = "token";
  return w;
}

status draining() {
  status s;
  s.healthy = true;
  s.draining = true;
  s.grace_ms = 5000;
  return s;
}

}  // namespace

TEST_CASE("frames: what a worker sends, in letters") {
  const std::pair<from_worker, const char*> rows[] = {
      {hello{1, "puma 3", "shop"}, R"({"t":"hello","v":1,"name":"puma 3","db":"shop"})"},
      {hello{1, std::nullopt, std::nullopt}, R"({"t":"hello","v":1})"},
      {sub{{"orders", ""}}, R"({"t":"sub","q":"orders"})"},
      {sub{{"", "7"}}, R"({"t":"sub","q":7})"},
      {unsub{{"orders", ""}}, R"({"t":"unsub","q":"orders"})"},
      {ping{18446744073709551615ULL}, R"({"t":"ping","id":18446744073709551615})"},
      {stats_request{}, R"({"t":"stats"})"},
      {unknown_message{"new"}, R"({"t":"new"})"},
  };
  for (const auto& [message, json] : rows) {
    CHECK(json_of(message) == json);
    const auto back = decoded<from_worker>(json);
    CHECK(back.index() == message.index());
    CHECK(json_of(back) == json);
  }
}

TEST_CASE("frames: what the hub sends, in letters") {
  const std::pair<from_hub, const char*> rows[] = {
      {some_welcome(),
       R"({"t":"welcome","v":1,"hub":"uuid","version":"0.1.0","db":"shop","system_id":"7","heartbeat_ms":5000,"fence":"token"})"},
      {welcome{},
       R"({"t":"welcome","v":1,"hub":"","version":"","db":null,"system_id":null,"heartbeat_ms":5000,"fence":""})"},
      {ack{"c"}, R"({"t":"ack","q":"c"})"},
      {nack{{"c", ""}, code::listen_failed, "no", "42501"},
       R"({"t":"nack","q":"c","code":"listen_failed","reason":"no","sqlstate":"42501"})"},
      {nack{{"", "[1,{\"a\":null}]"}, code::invalid_channel, "no", ""},
       R"({"t":"nack","q":[1,{"a":null}],"code":"invalid_channel","reason":"no"})"},
      {wake{"c", std::nullopt, 0, gap_cause::none}, R"({"t":"wake","q":"c","p":null})"},
      {wake{"c", "hi", 42, gap_cause::none}, R"({"t":"wake","q":"c","p":"hi","by":42})"},
      {wake{"c", std::nullopt, 0, gap_cause::reconnect},
       R"({"t":"wake","q":"c","p":null,"gap":"reconnect"})"},
      {wake{"c", "\xFF", 7, gap_cause::none}, R"({"t":"wake","q":"c","p":null,"p64":"/w==","by":7})"},
      {status{true, false, 0, ""}, R"({"t":"status","healthy":true})"},
      {status{false, false, 0, "pooler"}, R"({"t":"status","healthy":false,"reason":"pooler"})"},
      {status{false, false, 0, "connecting", true},
       R"({"t":"status","healthy":false,"reason":"connecting","full":true})"},
      {draining(), R"({"t":"status","healthy":true,"draining":true,"grace_ms":5000})"},
      {fence{9, 0}, R"({"t":"fence","id":9})"},
      {fence{9, 42}, R"({"t":"fence","id":9,"by":42})"},
      {pong{9}, R"({"t":"pong","id":9})"},
      {stats{R"({"t":"stats","workers":[]})"}, R"({"t":"stats","workers":[]})"},
      {bye{code::wrong_database, "A, not B"}, R"({"t":"bye","code":"wrong_database","reason":"A, not B"})"},
      {unknown_message{"new"}, R"({"t":"new"})"},
  };
  for (const auto& [message, json] : rows) {
    CHECK(json_of(message) == json);
    const auto back = decoded<from_hub>(json);
    CHECK(describe(back) == describe(message));
    CHECK(json_of(back) == json);
  }
}

TEST_CASE("codes: each there and back, a new one reads as protocol") {
  for (const auto c : {code::invalid_channel, code::forbidden, code::limit, code::wrong_database,
                       code::protocol, code::listen_failed, code::shutdown, code::moved})
    CHECK(code_from_string(to_string(c)) == c);
  CHECK(code_from_string("from the future") == code::protocol);
  CHECK(code_from_string("") == code::protocol);
}

TEST_CASE("gap causes: each there and back, a new one is a gap all the same") {
  for (const auto cause : {gap_cause::reconnect, gap_cause::hub_lost, gap_cause::overflow}) {
    const auto back = std::get<wake>(decoded<from_hub>(json_of(from_hub{wake{"c", std::nullopt, 0, cause}})));
    CHECK(back.gap == cause);
  }
  CHECK(std::get<wake>(decoded<from_hub>(R"({"t":"wake","q":"c","p":null,"gap":"new cause"})")).gap !=
        gap_cause::none);
}

TEST_CASE("D6, case 32: a payload arrives byte for byte") {
  std::string controls;
  for (int i = 0; i < 32; ++i) controls += static_cast<char>(i);
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  for (const auto& payload : {std::string("</script>"), std::string("\xE2\x80\xA8\xE2\x80\xA9"),
                              std::string("\r\n"), std::string("\\\\\"\\u0041"), std::string("🐘"), controls,
                              all, std::string(7999, 'x'), std::string("\x7F"), std::string("\xFF")}) {
    const auto back =
        std::get<wake>(decoded<from_hub>(json_of(from_hub{wake{"c", payload, 1, gap_cause::none}})));
    REQUIRE(back.payload);
    CHECK(*back.payload == payload);
  }
}

TEST_CASE("D6: v0 gets U+FFFD for bad bytes, and no member of v1") {
  wake_view view;
  view.q = "c";
  view.payload = "caf\xE9";
  view.by = 7;
  view.gap = gap_cause::reconnect;
  view.plain = true;
  std::string out;
  encode(out, view);
  CHECK(out.substr(4) == "{\"t\":\"wake\",\"q\":\"c\",\"p\":\"caf\xEF\xBF\xBD\"}");
  out.clear();
  status s = draining();
  s.reason = "why";
  encode_plain(out, s);
  CHECK(out.substr(4) == R"({"t":"status","healthy":true})");
}

TEST_CASE("codec: a text that is not UTF-8 (a message of a SQL_ASCII server) never makes a malformed frame") {
  from_hub out;
  std::string why;
  for (const from_hub& message :
       {from_hub{nack{{"c", ""}, code::listen_failed, "schl\xFCssel", "22P05"}},
        from_hub{bye{code::protocol, "\xFF"}}, from_hub{status{false, false, 0, "\xE9"}}}) {
    CHECK(decode(json_of(message), out, why));
    CHECK(why.empty());
  }
  auto w = some_welcome();
  w.db = "b\xFCro";
  CHECK(decode(json_of(from_hub{w}), out, why));
}

TEST_CASE("frames: unknown members are ignored, order and spaces do not matter") {
  CHECK(std::get<sub>(decoded<from_worker>(R"( { "new" : {"deep":[1,2]}, "q" : "c" , "t" : "sub" } )"))
            .q.text == "c");
  CHECK(std::get<sub>(decoded<from_worker>(R"({"t":"sub","q":"\u65e5\u672c \ud83d\udc18"})")).q.text ==
        "日本 🐘");
  const auto s = std::get<status>(decoded<from_hub>(R"({"t":"status","healthy":false,"new":1})"));
  CHECK_FALSE(s.healthy);
}

TEST_CASE("frames: a welcome's optional members") {
  const auto w = std::get<welcome>(decoded<from_hub>(R"({"t":"welcome","v":2,"db":null})"));
  CHECK(w.v == 2);
  CHECK_FALSE(w.db);
  CHECK_FALSE(w.system_id);
  CHECK(w.heartbeat_ms == 5000);
}

TEST_CASE("frames: many in one buffer") {
  std::string out;
  encode(out, from_hub{ack{"a"}});
  encode(out, from_hub{status{true, false, 0, ""}});
  encode(out, wake_view{"a", "x", 3, gap_cause::none, false});
  CHECK(test::describe_stream(out) == std::vector<std::string>{"ack a", "status healthy", "wake a =x by 3"});
}
