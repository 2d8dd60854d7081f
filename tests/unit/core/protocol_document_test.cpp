// Holds docs/protocol.md to the code: its byte examples to the codec, its table of `stats` to what is sent.
#include <rapidjson/document.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "common/frame.hpp"
#include "common/message_codec.hpp"
#include "daemon/app/stats.hpp"
#include "daemon/core/engine.hpp"

namespace {

struct example {
  std::string from;
  std::string json;
  std::string bytes;
  int line = 0;
};

std::string bytes_of(const std::string& hex) {
  std::string out;
  std::istringstream words(hex);
  for (std::string word; words >> word;) {
    REQUIRE(word.size() == 2);
    out += static_cast<char>(std::stoi(word, nullptr, 16));
  }
  return out;
}

// Blocks fenced as ```frame worker or ```frame hub: one line of JSON, then its bytes.
std::vector<example> examples() {
  std::ifstream file(PGWAKE_SOURCE_DIR "/docs/protocol.md");
  REQUIRE(file);
  std::vector<example> found;
  const std::string mark = "```frame ";
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.compare(0, mark.size(), mark) != 0) continue;
    example e;
    e.from = line.substr(mark.size());
    e.line = number;
    std::getline(file, e.json);
    std::string hex;
    while (std::getline(file, line) && line != "```") hex += line + " ", ++number;
    number += 2;
    e.bytes = bytes_of(hex);
    found.push_back(std::move(e));
  }
  return found;
}

// Decodes and encodes again; the document's members stand in the order in which the code writes them.
template <typename Message>
std::string there_and_back(const std::string& json) {
  Message message;
  std::string why;
  const bool decoded = pgwake::decode(json, message, why);
  INFO(why);
  REQUIRE(decoded);
  CHECK_FALSE(std::holds_alternative<pgwake::unknown_message>(message));
  std::string out;
  pgwake::encode(out, message);
  return out;
}

std::set<std::string> members_of(const rapidjson::Value& object) {
  std::set<std::string> names;
  for (const auto& m : object.GetObject()) names.insert(m.name.GetString());
  return names;
}

}  // namespace

TEST_CASE("documents: every byte example in docs/protocol.md is what the codec reads and writes") {
  const auto all = examples();
  CHECK(all.size() >= 16);
  std::set<std::string> kinds;
  for (const auto& e : all) {
    CAPTURE(e.line, e.json);
    std::string framed;
    pgwake::append_frame(framed, e.json);
    CHECK(framed == e.bytes);
    pgwake::frame_reader reader(pgwake::max_frame_from_worker);
    reader.append(e.bytes);
    std::string_view body;
    REQUIRE(reader.next(body) == pgwake::frame_reader::outcome::frame);
    CHECK(body == e.json);
    CHECK_FALSE(reader.mid_frame());
    REQUIRE((e.from == "worker" || e.from == "hub"));
    const auto again = e.from == "worker" ? there_and_back<pgwake::from_worker>(e.json)
                                          : there_and_back<pgwake::from_hub>(e.json);
    CHECK(again == e.bytes);
    kinds.insert(e.from + e.json.substr(5, e.json.find('"', 6) - 5));
  }
  // Every kind of frame but the hub's `stats`, which the document describes as a table.
  CHECK(kinds.size() == 15);
}

TEST_CASE("documents: docs/protocol.md names every member of stats") {
  using namespace std::chrono_literals;
  pgwaked::engine hub({}, 1);
  const auto now = pgwake::steady_time{} + 1h;
  hub.start(now);
  const auto worker = hub.joined({1, 2, 3}, "token", now);
  std::string frames;
  pgwake::encode(frames, pgwake::from_worker{pgwake::hello{1, {}, {}}});
  pgwake::encode(frames, pgwake::from_worker{pgwake::sub{{"orders", ""}}});
  hub.bytes(worker, frames, now);
  const auto json = pgwaked::stats_json(hub, {{true, 0}, {}, now, 0}, now);
  rapidjson::Document doc;
  doc.Parse(json.c_str());
  REQUIRE(doc.IsObject());
  std::set<std::string> names = members_of(doc);
  for (const auto& object :
       {&doc["upstream"], &doc["totals"], &doc["limits"], &doc["workers"][0], &doc["channels"][0]})
    names.merge(members_of(*object));
  std::ifstream file(PGWAKE_SOURCE_DIR "/docs/protocol.md");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const auto from = text.find("\n### stats\n");
  REQUIRE(from != text.npos);
  text = text.substr(from, text.find("\n### bye\n") - from);
  for (const auto& name : names) {
    INFO("docs/protocol.md, section stats, does not name `" << name << "`");
    CHECK(text.find("`" + name + "`") != text.npos);
  }
}
