// One frame's body, either way: what decodes can be encoded, and decodes to the same again.

#include "common/frame.hpp"
#include "common/message_codec.hpp"
#include "common/unicode.hpp"
#include "fuzz/check.hpp"

namespace {

template <typename Message>
void round_trip(std::string_view json) {
  Message first;
  std::string why;
  if (!pgwake::decode(json, first, why)) {
    FUZZ_CHECK(!why.empty());
    FUZZ_CHECK(pgwake::is_utf8(why));
    return;
  }
  std::string once;
  pgwake::encode(once, first);
  Message second;
  FUZZ_CHECK(pgwake::decode(std::string_view(once).substr(pgwake::frame_header), second, why));
  FUZZ_CHECK(first.index() == second.index());
  std::string twice;
  pgwake::encode(twice, second);
  FUZZ_CHECK(once == twice);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  round_trip<pgwake::from_worker>(json);
  round_trip<pgwake::from_hub>(json);
  return 0;
}
