#include "common/frame.hpp"

#include <catch2/catch.hpp>
#include <vector>

using namespace pgwake;
using outcome = frame_reader::outcome;

namespace {

std::string header(std::size_t size) {
  std::string out(frame_header, '\0');
  put_frame_header(out, 0, size);
  return out;
}

std::vector<std::string> bodies(frame_reader& reader) {
  std::vector<std::string> out;
  std::string_view body;
  while (reader.next(body) == outcome::frame) out.emplace_back(body);
  return out;
}

}  // namespace

TEST_CASE("frame: the header is the body's length, big-endian") {
  CHECK(header(1) == std::string("\0\0\0\1", 4));
  CHECK(header(0x01020304) == "\x01\x02\x03\x04");
  CHECK(header(max_frame_from_hub) == std::string("\0\x40\0\0", 4));
  std::string out = "before";
  append_frame(out, "{}");
  CHECK(out == std::string("before\0\0\0\2{}", 12));
}

TEST_CASE("case 18: a stream cut anywhere gives the same frames") {
  std::string stream;
  const std::vector<std::string> sent = {"{}", "x", std::string(300, 'a'), "last"};
  for (const auto& body : sent) append_frame(stream, body);
  for (std::size_t first = 0; first <= stream.size(); ++first) {
    frame_reader reader(max_frame_from_worker);
    std::vector<std::string> got;
    for (const auto part :
         {std::string_view(stream).substr(0, first), std::string_view(stream).substr(first)}) {
      reader.append(part);
      for (auto& body : bodies(reader)) got.push_back(std::move(body));
    }
    REQUIRE(got == sent);
    REQUIRE_FALSE(reader.mid_frame());
  }
}

TEST_CASE("case 18: one byte at a time") {
  std::string stream;
  for (int i = 0; i < 3; ++i) append_frame(stream, "frame " + std::to_string(i));
  frame_reader reader(max_frame_from_worker);
  std::vector<std::string> got;
  for (const char c : stream) {
    reader.append({&c, 1});
    for (auto& body : bodies(reader)) got.push_back(std::move(body));
  }
  CHECK(got == std::vector<std::string>{"frame 0", "frame 1", "frame 2"});
}

TEST_CASE("frame: length 0 and a length over the limit break the stream for good, before any body came") {
  struct row {
    std::size_t length;
    outcome expected;
  };
  const auto rows = {row{0, outcome::empty}, row{1, outcome::need_more},
                     row{max_frame_from_worker, outcome::need_more},
                     row{max_frame_from_worker + 1, outcome::too_long}, row{0xFFFFFFFF, outcome::too_long}};
  for (const auto& r : rows) {
    CAPTURE(r.length);
    frame_reader reader(max_frame_from_worker);
    std::string_view body;
    reader.append(header(r.length));
    CHECK(reader.next(body) == r.expected);
    reader.append("some more");
    const auto after = reader.next(body);
    if (r.length == 1)
      CHECK(after == outcome::frame);
    else
      CHECK(after == r.expected);
  }
}

TEST_CASE("frame: a body of exactly the limit passes") {
  frame_reader reader(max_frame_from_worker);
  std::string stream;
  append_frame(stream, std::string(max_frame_from_worker, 'x'));
  append_frame(stream, "next");
  reader.append(stream);
  const auto got = bodies(reader);
  REQUIRE(got.size() == 2);
  CHECK(got[0].size() == max_frame_from_worker);
  CHECK(got[1] == "next");
}

TEST_CASE("frame: mid_frame tells a begun frame from none") {
  frame_reader reader(100);
  std::string_view body;
  CHECK_FALSE(reader.mid_frame());
  reader.append(std::string_view("\0", 1));
  CHECK(reader.mid_frame());
  CHECK(reader.next(body) == outcome::need_more);
  CHECK(reader.mid_frame());
  reader.append(std::string_view("\0\0\1", 3));
  CHECK(reader.next(body) == outcome::need_more);
  reader.append("x\0");
  CHECK(reader.mid_frame());
  CHECK(reader.next(body) == outcome::frame);
  CHECK_FALSE(reader.mid_frame());
}
