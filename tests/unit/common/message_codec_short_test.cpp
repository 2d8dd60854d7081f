#include <catch2/catch.hpp>
#include <random>

#include "common/frame.hpp"
#include "common/message_codec.hpp"

using namespace pgwake;

namespace {

// The same JSON with a space in it, which the codec never writes: it is read the long way.
std::string long_way(std::string json) {
  if (!json.empty()) json.insert(1, " ");
  return json;
}

// What a body says, in letters; empty if it is malformed.
template <typename Variant>
std::string said(const std::string& json) {
  Variant message;
  std::string why;
  if (!decode(json, message, why)) return "";
  std::string again;
  encode(again, message);
  return std::to_string(message.index()) + again;
}

std::string body(const std::string& frame) { return frame.substr(frame_header); }

std::string wake_of(const std::string& q, const std::optional<std::string>& payload, int by) {
  std::string out;
  wake w;
  w.q = q;
  w.payload = payload;
  w.by = by;
  encode(out, from_hub{w});
  return body(out);
}

std::string sub_of(const std::string& q) {
  std::string out;
  encode(out, from_worker{sub{wire_name{q, ""}}});
  return body(out);
}

std::string every_ascii() {
  std::string out;
  for (char c = 1; c < 127; ++c) out += c;
  return out;
}

}  // namespace

TEST_CASE("codec: the short way reads what the long way reads") {
  const std::string euro = "\xE2\x82\xAC";
  for (const auto& text :
       {std::string(), std::string("orders"), every_ascii(), euro + "\"" + euro, std::string("\\")})
    for (const int by : {0, 1, 4242, 2147483647}) {
      const auto durable = wake_of(text, std::nullopt, by);
      const auto ephemeral = wake_of("c", text, by);
      CHECK(said<from_hub>(durable) == said<from_hub>(long_way(durable)));
      CHECK(said<from_hub>(ephemeral) == said<from_hub>(long_way(ephemeral)));
      CHECK_FALSE(said<from_hub>(ephemeral).empty());
      CHECK(said<from_worker>(sub_of(text)) == said<from_worker>(long_way(sub_of(text))));
    }
}

TEST_CASE("codec: one byte changed, put in or taken out, and both ways still agree") {
  std::mt19937 random(7);
  const std::vector<std::string> frames = {wake_of("orders", "a \"payload\"\n", 4242),
                                           wake_of("c", std::nullopt, 2147483647),
                                           R"({"t":"ack","q":"orders"})"};
  const std::string sub = sub_of("orders \\ \x01 \xC3\xA9");
  const auto changed = [&](std::string json) {
    const auto at = 1 + random() % (json.size() - 1);
    const char c = random() % 2 == 0 ? static_cast<char>(random()) : R"("\{}:,0u.x )"[random() % 11];
    if (random() % 3 == 0)
      json.erase(at, 1);
    else if (random() % 2 == 0)
      json.insert(at, 1, c);
    else
      json[at] = c;
    return json;
  };
  for (int i = 0; i < 20'000; ++i) {
    const auto json = changed(frames[random() % frames.size()]);
    if (said<from_hub>(json) != said<from_hub>(long_way(json))) FAIL_CHECK(json);
    const auto from = changed(sub);
    if (said<from_worker>(from) != said<from_worker>(long_way(from))) FAIL_CHECK(from);
  }
}

TEST_CASE("codec: a name of more than 1,024 bytes is refused the short way, too") {
  std::string why;
  from_worker message;
  CHECK(decode(sub_of(std::string(1024, 'x')), message, why));
  CHECK_FALSE(decode(sub_of(std::string(1025, 'x')), message, why));
  CHECK(why.find("1024") != std::string::npos);
}
