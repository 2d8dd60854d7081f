// What a line of the log looks like, and how many of them others can cause.
#include <rapidjson/document.h>

#include <catch2/catch.hpp>
#include <string>

#include "daemon/core/log_thinning.hpp"
#include "daemon/io/log_line.hpp"
#include "support/logfmt.hpp"

using namespace pgwaked;
using namespace std::chrono_literals;
using pgwake::log_fields;
using pgwake::test::logfmt;

namespace {

constexpr auto now_text = "2026-11-30T14:15:00.123+01:00";

std::string text_line(const log_fields& fields, bool journal = false) {
  return log_line({log_format::text, journal}, log_level::warning, now_text, "worker evicted", fields);
}

}  // namespace

TEST_CASE("the log: text is logfmt, json has one member for each field") {
  log_fields fields;
  fields.add("worker", 7).add("name", "a b").add("empty", "").add("plain", "db:5432").add("yes", true);
  CHECK(text_line(fields) ==
        "time=2026-11-30T14:15:00.123+01:00 level=warning event=\"worker evicted\" worker=7 name=\"a b\" "
        "empty=\"\" plain=db:5432 yes=true\n");
  CHECK(text_line(fields, true).starts_with("<4>event=\"worker evicted\" worker=7"));
  CHECK(log_line({log_format::json, false}, log_level::info, now_text, "started", fields) ==
        R"({"time":"2026-11-30T14:15:00.123+01:00","level":"info","event":"started","worker":7,"name":"a b",)"
        R"("empty":"","plain":"db:5432","yes":true})"
        "\n");
}

TEST_CASE("the log: no text can forge a field, a line or a terminal's command") {
  const std::string text =
      GENERATE(as<std::string>(), "x\" reason=forged \\", "a=b", "\n<3>event=forged", "\\", "\"",
               "evil \u202e \u009b31m \u2028 \x7f \U000e0041 日本", " ", std::string("a\0b", 3));
  const auto fields = log_fields().add("name", text).add("uid", 33);
  const auto line = text_line(fields);
  INFO(line);
  CHECK(std::count(line.begin(), line.end(), '\n') == 1);
  for (const auto* bad : {"\u202e", "\u009b", "\u2028", "\x7f", "\U000e0041"})
    CHECK(line.find(bad) == std::string::npos);
  const auto parsed = logfmt(line);
  REQUIRE(parsed);
  CHECK(parsed->size() == 5);
  CHECK(parsed->at("name") == text);
  CHECK(parsed->at("uid") == "33");
  rapidjson::Document doc;
  doc.Parse(log_line({log_format::json, false}, log_level::info, now_text, "e", fields).c_str());
  REQUIRE(doc.IsObject());
  CHECK(doc.MemberCount() == 5);
  CHECK(std::string(doc["name"].GetString(), doc["name"].GetStringLength()) == text);
  CHECK(doc["uid"].GetInt() == 33);
}

TEST_CASE("the log: bytes that are not UTF-8 do not break a line, and a value has a bound") {
  const auto line = text_line(log_fields().add("name", "\xff\xfe x"));
  REQUIRE(logfmt(line));
  CHECK(logfmt(line)->at("name") == "\ufffd\ufffd x");
  std::string longest;
  while (longest.size() < 1'000'000) longest += "日本";
  CHECK(text_line(log_fields().add("name", longest)).size() < 1'200);
  const auto cut = logfmt(text_line(log_fields().add("name", "x" + longest)))->at("name");
  CHECK(cut.size() <= log_fields::max_value + 3);
  CHECK(cut.ends_with("日..."));
}

TEST_CASE("the log: a user's lines of one event are thinned, and what was left out is said") {
  log_thinning thin;
  auto now = pgwake::steady_time{} + 1h;
  const auto flood = [&](std::uint32_t uid) {
    std::uint64_t written = 0;
    for (int i = 0; i < 10'000; ++i) written += thin.admit("worker dismissed", uid, now) ? 1 : 0;
    return written;
  };
  CHECK(flood(33) == log_thinning::burst);
  CHECK(flood(34) == log_thinning::burst);
  CHECK(thin.admit("worker refused", 33, now));
  CHECK(thin.take(now).empty());
  now += log_thinning::period;
  const auto told = thin.take(now);
  REQUIRE(told.size() == 2);
  CHECK(told[0].event == "worker dismissed");
  CHECK(told[0].uid == 33);
  CHECK(told[0].lines == 10'000 - log_thinning::burst);
  CHECK(thin.take(now).empty());
  CHECK(flood(33) == log_thinning::burst);  // a new period
  CHECK(thin.take(now, true).size() == 1);
}

TEST_CASE("the log: ever more users are not ever more lines") {
  log_thinning thin;
  const auto now = pgwake::steady_time{} + 1h;
  std::uint64_t written = 0;
  for (std::uint32_t uid = 0; uid < 100'000; ++uid) written += thin.admit("worker refused", uid, now) ? 1 : 0;
  CHECK(written <= log_thinning::max_kept + log_thinning::burst);
  CHECK(thin.take(now, true).size() == 1);
}
