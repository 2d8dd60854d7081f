#include "daemon/settings/metrics_access.hpp"

#include <catch2/catch.hpp>
#include <string>

using namespace pgwaked;

TEST_CASE("metrics: only the loopback's names are its names, whatever else a Host holds") {
  for (const auto* host : {"localhost", "LocalHost", "localhost:9187", "localhost:1", "localhost:65535",
                           "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:9187"}) {
    CAPTURE(host);
    CHECK(names_loopback(host));
  }
  for (const auto* host : {"",
                           ":",
                           ":9187",
                           " localhost",
                           "localhost ",
                           "localhost:",
                           "localhost:x",
                           "localhost:x@evil",
                           "localhost:80@evil",
                           "localhost@evil",
                           "localhost.evil",
                           "localhost:65536",
                           "localhost:-1",
                           "localhost:+1",
                           "localhost:80:80",
                           "localhost:99999999999999999999",
                           "localhost.",
                           "evil",
                           "evil:localhost",
                           "127.0.0.1.evil",
                           "127.0.0.10",
                           "127.0.0.2",
                           "127.1",
                           "0.0.0.0",
                           "[::1",
                           "::1",
                           "[::1]evil",
                           "[::1]:",
                           "[::2]",
                           "[::1]:x",
                           "[::ffff:127.0.0.1]",
                           "localhost,evil",
                           "localhost/evil",
                           "user@localhost"}) {
    CAPTURE(host);
    CHECK_FALSE(names_loopback(host));
  }
  CHECK_FALSE(names_loopback({"localhost\0", 10}));
}

TEST_CASE("metrics: a token is one after Bearer, the same from its first letter to its last") {
  CHECK(bearer_of("Bearer abc") == "abc");
  CHECK(bearer_of("bearer   abc") == "abc");
  for (const auto* other : {"", "abc", "Basic abc", "Bearer", "Bearerabc"}) CHECK_FALSE(bearer_of(other));
  const std::string token = "0123456789abcdef";
  CHECK(same_token(token, token));
  for (const auto* other :
       {"", "0123456789abcde", "0123456789abcdeF", "0123456789abcdef ", "1123456789abcdef"})
    CHECK_FALSE(same_token(other, token));
  CHECK_FALSE(same_token("", ""));  // none is asked for, so none is right
  CHECK(token_fault(token).empty());
  CHECK(token_fault("aB3-._~+/=aB3-._~").empty());
  CHECK_FALSE(token_fault("").empty());
  CHECK_FALSE(token_fault("0123456789abcde").empty());
  CHECK_FALSE(token_fault(std::string(513, 'x')).empty());
  CHECK_FALSE(token_fault("0123456789 abcdef").empty());
  CHECK_FALSE(token_fault("0123456789abcdef\xc3\xa9").empty());
}
