#include "common/base64.hpp"

#include <catch2/catch.hpp>

using namespace pgwake;

TEST_CASE("base64: RFC 4648's examples") {
  const std::pair<const char*, const char*> rows[] = {{"", ""},
                                                      {"f", "Zg=="},
                                                      {"fo", "Zm8="},
                                                      {"foo", "Zm9v"},
                                                      {"foob", "Zm9vYg=="},
                                                      {"fooba", "Zm9vYmE="},
                                                      {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, encoded] : rows) {
    CHECK(base64_encode(plain) == encoded);
    CHECK(base64_decode(encoded) == std::optional<std::string>(plain));
  }
}

TEST_CASE("base64: every byte, every length") {
  std::string bytes;
  for (int i = 0; i < 515; ++i) {
    REQUIRE(base64_decode(base64_encode(bytes)) == std::optional<std::string>(bytes));
    bytes += static_cast<char>(i * 7 + 250);
  }
  CHECK(base64_encode("\xFB\xFF\xBF") == "+/+/");
}

TEST_CASE("base64: what is no base64 is refused") {
  for (const auto* text :
       {"Z", "Zg", "Zg=", "Zg===", "====", "Z===", "Zg==Zg==", "Zm9v\n", "Zm-v", "Zg=g", "=Zg=", "Zm 9"})
    CHECK_FALSE(base64_decode(text));
}
