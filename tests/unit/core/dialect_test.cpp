#include "daemon/core/dialect.hpp"

#include <catch2/catch.hpp>

#include "unit/core/describe.hpp"

using namespace pgwake;
using namespace pgwaked;

namespace {

std::string json(const dialect& d, const auto& message) {
  std::string out;
  d.encode(out, message);
  return out.empty() ? "" : out.substr(frame_header);
}

const dialect_v0 v0(*queue_template::parse("pgmq.q_{}.INSERT"));
const dialect_v1 v1;

}  // namespace

TEST_CASE("v0: knows ack, nack, wake and status, and nothing else") {
  CHECK(json(v0, from_hub{ack{"orders"}}) == R"({"t":"ack","q":"orders"})");
  CHECK(json(v0, from_hub{nack{{"orders", ""}, code::forbidden, "no", ""}}) ==
        R"({"t":"nack","q":"orders","code":"forbidden","reason":"no"})");
  CHECK(json(v0, from_hub{status{false, true, 5000, "pooler"}}) == R"({"t":"status","healthy":false})");
  for (const from_hub& message : {from_hub{welcome{}}, from_hub{fence{1, 0}}, from_hub{pong{1}},
                                  from_hub{stats{"{}"}}, from_hub{bye{}}})
    CHECK(json(v0, message).empty());
}

TEST_CASE("v0: queues on the wire, channels in the database") {
  CHECK(v0.name("pgmq.q_orders.INSERT") == "orders");
  CHECK(v0.name("other") == "other");
  wake_view view;
  view.q = "pgmq.q_orders.INSERT";
  view.by = 7;
  CHECK(json(v0, view) == R"({"t":"wake","q":"orders","p":null})");
  view.gap = gap_cause::reconnect;
  CHECK(json(v0, view) == R"({"t":"wake","q":"orders","p":null})");  // a gap is a plain durable wake
  view.gap = gap_cause::none;
  view.payload = "x\xFF";
  CHECK(json(v0, view) == "{\"t\":\"wake\",\"q\":\"orders\",\"p\":\"x\xEF\xBF\xBD\"}");
}

TEST_CASE("v1: channels as they are, every frame") {
  CHECK(v1.name("pgmq.q_orders.INSERT") == "pgmq.q_orders.INSERT");
  CHECK(json(v1, wake_view{"c", std::nullopt, 7, gap_cause::none, false}) ==
        R"({"t":"wake","q":"c","p":null,"by":7})");
  CHECK(json(v1, wake_view{"c", std::nullopt, 0, gap_cause::reconnect, false}) ==
        R"({"t":"wake","q":"c","p":null,"gap":"reconnect"})");
  for (const from_hub& message :
       {from_hub{welcome{}}, from_hub{fence{1, 0}}, from_hub{pong{1}}, from_hub{stats{"{\"t\":\"stats\"}"}},
        from_hub{bye{}}, from_hub{ack{"c"}}, from_hub{status{}}})
    CHECK_FALSE(json(v1, message).empty());
}
