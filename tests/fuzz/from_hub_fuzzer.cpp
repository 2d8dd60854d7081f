// The client's side: a stream of bytes from a hub, cut anywhere, gives the same messages as when it comes
// whole.

#include <vector>

#include "common/frame.hpp"
#include "common/message_codec.hpp"
#include "fuzz/check.hpp"

namespace {

using pgwake::frame_reader;

// The messages of a stream that comes in pieces of these sizes, encoded again; ends where a link would be
// given up.
std::vector<std::string> messages(std::string_view stream, std::size_t piece) {
  std::vector<std::string> out;
  frame_reader reader(pgwake::max_frame_from_hub);
  while (!stream.empty()) {
    const auto part = stream.substr(0, piece);
    stream.remove_prefix(part.size());
    reader.append(part);
    std::string_view body;
    auto outcome = reader.next(body);
    for (; outcome == frame_reader::outcome::frame; outcome = reader.next(body)) {
      pgwake::from_hub message;
      std::string why;
      if (!pgwake::decode(body, message, why)) {
        out.push_back("malformed: " + why);
        return out;
      }
      out.emplace_back();
      pgwake::encode(out.back(), message);
    }
    if (outcome != frame_reader::outcome::need_more) {
      out.emplace_back("broken");
      return out;
    }
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = data[0] % 64 + 1;
  const std::string_view stream(reinterpret_cast<const char*>(data) + 1, size - 1);
  FUZZ_CHECK(messages(stream, piece) == messages(stream, stream.size() + 1));
  return 0;
}
