#include "common/byte_blocks.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "common/json_text.hpp"
#include "common/unicode.hpp"

using namespace pgwake;

namespace {

constexpr std::size_t longest = 3 * byte_block + 5;
constexpr auto is_x = [](unsigned char c) { return static_cast<unsigned char>(c == 'x'); };

}  // namespace

TEST_CASE("byte blocks: one bad byte is found wherever it is, in a text of any length") {
  for (std::size_t size = 0; size <= longest; ++size) {
    const std::string clean(size, 'a');
    REQUIRE(all_clean(clean, is_x));
    REQUIRE(clean_blocks(clean, is_x) == size / byte_block * byte_block);
    for (std::size_t at = 0; at < size; ++at) {
      auto text = clean;
      text[at] = 'x';
      REQUIRE_FALSE(all_clean(text, is_x));
      REQUIRE(clean_blocks(text, is_x) <= at);
    }
  }
}

TEST_CASE("UTF-8: a character, whole or cut, is judged the same wherever it lies in a text") {
  const std::string whole = "\xE6\x97\xA5";
  for (std::size_t size = 0; size <= longest; ++size)
    for (std::size_t at = 0; at <= size; ++at) {
      const std::string before(at, 'a');
      const std::string after(size - at, 'a');
      REQUIRE(is_utf8(before + whole + after));
      REQUIRE_FALSE(is_utf8(before + whole.substr(0, 2) + after));
      REQUIRE_FALSE(is_utf8(before + whole.substr(1) + after));
      REQUIRE_FALSE(is_utf8(before + '\xFF' + after));
    }
}

TEST_CASE("JSON text: what must be escaped is, and comes back, wherever it lies in a text") {
  for (const char special : {'"', '\\', '\n', '\x01', '\x1F', '\x7F'})
    for (std::size_t size = 0; size <= longest; ++size)
      for (std::size_t at = 0; at <= size; ++at) {
        const auto text = std::string(at, 'a') + special + std::string(size - at, 'a');
        std::string json;
        append_json_string(json, text);
        REQUIRE(json.size() >= text.size() + 2 + (special == '\x7F' ? 0 : 1));
        std::string_view rest = json;
        std::string back;
        REQUIRE(take_json_string(rest, back));
        REQUIRE(back == text);
        REQUIRE(rest.empty());
      }
}
