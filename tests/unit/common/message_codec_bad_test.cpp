#include <catch2/catch.hpp>

#include "common/message_codec.hpp"
#include "unit/core/describe.hpp"

using namespace pgwake;
using Catch::Contains;

namespace {

std::string nested(std::size_t depth, char open, char close) {
  std::string out = R"({"t":"x","a":)";
  out += std::string(depth - 1, open) + std::string(depth - 1, close) + "}";
  return out;
}

template <typename Message>
std::string fault(std::string_view json) {
  Message out;
  std::string why;
  CAPTURE(json);
  CHECK_FALSE(decode(json, out, why));
  return why;
}

struct row {
  const char* what;
  std::string json;
  const char* why;
};

const std::vector<row> malformed = {
    {"nothing", "", "not JSON"},
    {"spaces", "   ", "not JSON"},
    {"words", "hello", "not JSON"},
    {"half an object", R"({"t":"sub")", "not JSON"},
    {"two objects", R"({"t":"x"}{"t":"y"})", "not JSON"},
    {"an object and more", R"({"t":"x"} y)", "not JSON"},
    {"NUL after the object", std::string("{\"t\":\"x\"}\0", 10), "not JSON"},
    {"NUL and more after the object", std::string("{\"t\":\"x\"}\0{\"t\":\"y\"}", 19), "not JSON"},
    {"NUL inside a string", std::string("{\"t\":\"x\0y\"}", 11), "not JSON"},
    {"NUL first", std::string("\0{\"t\":\"x\"}", 10), "not JSON"},
    {"NaN", R"({"t":"x","a":NaN})", "not JSON"},
    {"Infinity", R"({"t":"x","a":-Infinity})", "not JSON"},
    {"1e999", R"({"t":"x","a":1e999})", "not JSON"},
    {"01", R"({"t":"x","a":01})", "not JSON"},
    {"a comment", R"({"t":"x"/* */})", "not JSON"},
    {"a trailing comma", R"({"t":"x",})", "not JSON"},
    {"single quotes", "{'t':'x'}", "not JSON"},
    {"a control character in a string", "{\"t\":\"a\nb\"}", "not JSON"},
    {"a byte order mark", "\xEF\xBB\xBF{\"t\":\"x\"}", "not JSON"},
    {"an array", R"([{"t":"x"}])", "object"},
    {"a string", R"("t")", "object"},
    {"null", "null", "object"},
    {"a number", "7", "object"},
    {"no t", R"({"q":"c"})", "no string `t`"},
    {"t is a number", R"({"t":7})", "no string `t`"},
    {"t is null", R"({"t":null})", "no string `t`"},
    {"t of an inner object", R"({"a":{"t":"x"}})", "no string `t`"},
    {"bad UTF-8 in a value", "{\"t\":\"x\",\"a\":\"\xFF\"}", "UTF-8"},
    {"bad UTF-8 in a key", "{\"t\":\"x\",\"\xC3\":1}", "UTF-8"},
    {"bad UTF-8 outside of strings", "{\"t\":\"x\"}\xE9", "UTF-8"},
    {"an encoded surrogate", "{\"t\":\"\xED\xA0\x80\"}", "UTF-8"},
    {"a lone high surrogate", R"({"t":"x","a":"\ud800"})", "not JSON"},
    {"a lone high surrogate before text", R"({"t":"x","a":"\ud83dxxxxxx"})", "not JSON"},
    {"two high surrogates", R"({"t":"x","a":"\ud83d\ud83d"})", "not JSON"},
    {"a lone low surrogate", R"({"t":"x","a":"\udc18"})", "surrogate"},
    {"a lone low surrogate in a key", R"({"t":"x","\udc18":1})", "surrogate"},
    {"a lone low surrogate in t", R"({"t":"\udfff"})", "surrogate"},
    {"objects 9 deep", nested(9, '[', ']'), "deeper than 8"},
    {"200,000 x [ (case 20)", std::string(200'000, '['), "deeper than 8"},
    {"200,000 x { ",
     [] {
       std::string out;
       for (int i = 0; i < 50'000; ++i) out += "{\"a\":";
       return out;
     }(),
     "deeper than 8"},
};

}  // namespace

TEST_CASE("case 20: every malformed frame is refused with a reason, on either side") {
  for (const auto& r : malformed) {
    CAPTURE(r.what);
    CHECK_THAT(fault<from_worker>(r.json), Contains(r.why));
    CHECK_THAT(fault<from_hub>(r.json), Contains(r.why));
  }
}

TEST_CASE("frames: 8 deep is not too deep") {
  from_worker out;
  std::string why;
  CHECK(decode(nested(8, '[', ']'), out, why));
  CHECK(decode(R"({"t":"x","a":[{"b":[{"c":[{"d":[1]}]}]}]})", out, why));  // 8 with the outermost
  // Depth counts nesting, not brackets.
  std::string wide = R"({"t":"x","a":[)";
  for (int i = 0; i < 1000; ++i) wide += "[],";
  CHECK(decode(wide + "[]]}", out, why));
}

TEST_CASE("frames: of two `t` the first counts, for every reader alike") {
  from_worker out;
  from_hub other;
  std::string why;
  REQUIRE(decode(R"({"t":"unsub","q":"a","t":"sub","q":"b"})", out, why));
  REQUIRE(std::holds_alternative<unsub>(out));
  CHECK(std::get<unsub>(out).q.text == "a");
  REQUIRE(decode(R"({"t":"pong","id":1,"t":"fence","id":2})", other, why));
  CHECK(test::describe(other) == "pong 1");
  CHECK_THAT(fault<from_worker>(R"({"t":7,"t":"sub","q":"b"})"), Contains("no string `t`"));
}

TEST_CASE("frames: a `q` of 1,024 bytes passes, one of 1,025 does not") {
  for (const std::string t : {"sub", "unsub"}) {
    from_worker out;
    std::string why;
    CHECK(decode(R"({"t":")" + t + R"(","q":")" + std::string(1024, 'x') + "\"}", out, why));
    CHECK_THAT(fault<from_worker>(R"({"t":")" + t + R"(","q":")" + std::string(1025, 'x') + "\"}"),
               Contains("1024"));
    // Bytes of the name, not of its JSON.
    std::string escaped;
    for (int i = 0; i < 1024; ++i) escaped += "\\u0061";
    CHECK(decode(R"({"t":")" + t + R"(","q":")" + escaped + "\"}", out, why));
    CHECK_FALSE(decode(R"({"t":")" + t + R"(","q":[")" + std::string(1025, 'x') + "\"]}", out, why));
  }
}

TEST_CASE("S2: a `q` that is no string is echoed as it was written") {
  const std::pair<const char*, const char*> rows[] = {
      {R"({"t":"sub","q":7})", "7"},
      {R"({"t":"sub","q":-1.5})", "-1.5"},
      {R"({"t":"sub","q":null})", "null"},
      {R"({"t":"sub"})", "null"},
      {R"({"t":"sub","q":true})", "true"},
      {R"({"t":"sub","q": [ 1 , {"a" : "\u00e9"} ] })", R"([ 1 , {"a" : "\u00e9"} ])"},
      {R"({"t":"sub","q":[0.1,1e-7,0e300,-0.0,2e-999]})", "[0.1,1e-7,0e300,-0.0,2e-999]"},
      {R"({"t":"sub","q":{}})", "{}"},
      {R"({"t":"sub","q":18446744073709551615})", "18446744073709551615"},
      {R"({"t":"sub","q":12345678901234567890123})", "12345678901234567890123"},
      {R"({"t":"sub","q":-0})", "-0"},
      {R"({"q" :)"
       "\n\t 1.0e5 "
       R"(, "t":"sub"})",
       "1.0e5"},
      {R"({"a":{"q":5},"b":["q",6],"c":"q","t":"sub","q":{"q":7},"d":8})", R"({"q":7})"},
      {R"({"t":"sub","\u0071":false,"q":2})", "false"},
  };
  for (const auto& [json, raw] : rows) {
    CAPTURE(json);
    from_worker out;
    std::string why;
    REQUIRE(decode(json, out, why));
    const auto& q = std::get<sub>(out).q;
    CHECK_FALSE(q.is_string());
    CHECK(q.not_a_string == raw);
    std::string echo;
    encode(echo, from_hub{nack{q, code::invalid_channel, "no", ""}});
    CHECK(echo.substr(4) ==
          "{\"t\":\"nack\",\"q\":" + std::string(raw) + R"(,"code":"invalid_channel","reason":"no"})");
  }
}

TEST_CASE("frames: a member of the wrong kind is refused, and named") {
  const std::pair<const char*, const char*> from_workers[] = {
      {R"({"t":"hello"})", "`v`"},
      {R"({"t":"hello","v":0})", "`v`"},
      {R"({"t":"hello","v":-1})", "`v`"},
      {R"({"t":"hello","v":1.5})", "`v`"},
      {R"({"t":"hello","v":"1"})", "`v`"},
      {R"({"t":"hello","v":1,"name":7})", "`name`"},
      {R"({"t":"hello","v":1,"db":[]})", "`db`"},
      {R"({"t":"ping"})", "`id`"},
      {R"({"t":"ping","id":-1})", "`id`"},
      {R"({"t":"ping","id":"1"})", "`id`"},
      {R"({"t":"ping","id":18446744073709551616})", "`id`"},
  };
  for (const auto& [json, member] : from_workers) CHECK_THAT(fault<from_worker>(json), Contains(member));
  const std::pair<const char*, const char*> from_hubs[] = {
      {R"({"t":"welcome"})", "`v`"},
      {R"({"t":"welcome","v":1,"heartbeat_ms":-1})", "`heartbeat_ms`"},
      {R"({"t":"ack"})", "`q`"},
      {R"({"t":"ack","q":7})", "`q`"},
      {R"({"t":"wake","p":null})", "`q`"},
      {R"({"t":"wake","q":"c","p":7})", "`p`"},
      {R"({"t":"wake","q":"c","p":null,"p64":"not base64"})", "`p64`"},
      {R"({"t":"wake","q":"c","p":null,"p64":7})", "`p64`"},
      {R"({"t":"wake","q":"c","p":null,"gap":7})", "`gap`"},
      {R"({"t":"wake","q":"c","p":null,"by":-1})", "`by`"},
      {R"({"t":"wake","q":"c","p":null,"by":2147483648})", "`by`"},
      {R"({"t":"wake","q":"c","by":2147483648,"p":null})", "`by`"},
      {R"({"t":"status"})", "`healthy`"},
      {R"({"t":"status","healthy":1})", "`healthy`"},
      {R"({"t":"fence"})", "`id`"},
      {R"({"t":"pong","id":null})", "`id`"},
      {R"({"t":"bye","code":7})", "`code`"},
      {R"({"t":"nack","q":"c","reason":7})", "`reason`"},
  };
  for (const auto& [json, member] : from_hubs) CHECK_THAT(fault<from_hub>(json), Contains(member));
}

TEST_CASE("frames: hello's version may be of any age to come") {
  from_worker out;
  std::string why;
  REQUIRE(decode(R"({"t":"hello","v":18446744073709551615})", out, why));
  CHECK(std::get<hello>(out).v > 1);
}
