#include "daemon/settings/units.hpp"

#include <catch2/catch.hpp>
#include <limits>

#include "daemon/settings/nearest.hpp"

using namespace std::chrono_literals;
using namespace pgwaked;

namespace {

template <typename T>
T value_of(const boost::system::result<T, unit_error>& parsed) {
  REQUIRE(parsed.has_value());
  return *parsed;
}

}  // namespace

TEST_CASE("units: a duration is a whole number and ms, s, m or h") {
  CHECK(value_of(parse_duration("250ms")) == 250ms);
  CHECK(value_of(parse_duration("15s")) == 15s);
  CHECK(value_of(parse_duration("2m")) == 2min);
  CHECK(value_of(parse_duration("1h")) == 1h);
  CHECK(value_of(parse_duration("0s")) == 0ms);
  CHECK(value_of(parse_duration("0007s")) == 7s);
}

TEST_CASE("units: what is no duration says why, with the accepted form") {
  struct row {
    const char* text;
    const char* reason;
  };
  const row each =
      GENERATE(row{"", "empty"}, row{"15", "a unit is missing"}, row{"0", "a unit is missing"},
               row{"-15s", "negative"}, row{"-", "negative"}, row{"+15s", "begin with a digit"},
               row{"s", "begin with a digit"}, row{" 15s", "begin with a digit"}, row{"15s ", "not a unit"},
               row{"15 s", "not a unit"}, row{"1.5s", "not a unit"}, row{"15sx", "not a unit"},
               row{"15S", "for S write s"}, row{"1h30m", "not a unit"}, row{"15KiB", "not a unit"},
               row{"15sec", "for sec write s"}, row{"2min", "for min write m"}, row{"1e3s", "not a unit"},
               row{"9223372036854775808ms", "too large"}, row{"9223372036854775807s", "too large"},
               row{"99999999999999999999999999999999h", "too large"});
  CAPTURE(each.text);
  const auto parsed = parse_duration(each.text);
  REQUIRE(parsed.has_error());
  CHECK_THAT(parsed.error().reason, Catch::Contains(each.reason));
  CHECK_THAT(parsed.error().reason, Catch::Contains("250ms or 15s"));
}

TEST_CASE("units: a NUL inside a value is not its end") {
  CHECK(parse_duration(std::string_view("15s\0", 4)).has_error());
  CHECK(parse_size(std::string_view("15\0", 3)).has_error());
}

TEST_CASE("units: a size is bytes, or a whole number and KiB, MiB, GiB or TiB") {
  CHECK(value_of(parse_size("0")) == 0);
  CHECK(value_of(parse_size("65536")) == 65'536);
  CHECK(value_of(parse_size("64KiB")) == 65'536);
  CHECK(value_of(parse_size("16MiB")) == 16'777'216);
  CHECK(value_of(parse_size("1GiB")) == 1'073'741'824);
  CHECK(value_of(parse_size("18446744073709551615")) == std::numeric_limits<std::uint64_t>::max());
  CHECK(value_of(parse_size("16777215TiB")) == 16'777'215ULL << 40);
}

TEST_CASE("units: what is no size says why, with the accepted form") {
  struct row {
    const char* text;
    const char* reason;
  };
  const row each = GENERATE(
      row{"", "empty"}, row{"-1", "negative"}, row{"MiB", "begin with a digit"},
      row{"16MB", "for MB write MiB"}, row{"16M", "for M write MiB"}, row{"1g", "for g write GiB"},
      row{"16mib", "for mib write MiB"}, row{"16 MiB", "not a unit"}, row{"1.5GiB", "not a unit"},
      row{"16MiBs", "not a unit"}, row{"16s", "not a unit"}, row{"18446744073709551616", "too large"},
      row{"16777216TiB", "too large"}, row{"17179869184GiB", "too large"});
  CAPTURE(each.text);
  const auto parsed = parse_size(each.text);
  REQUIRE(parsed.has_error());
  CHECK_THAT(parsed.error().reason, Catch::Contains(each.reason));
  CHECK_THAT(parsed.error().reason, Catch::Contains("such as 16MiB"));
}

TEST_CASE("units: a count is a plain whole number") {
  CHECK(value_of(parse_count("4096")) == 4096);
  for (const char* text : {"", "-1", "4k", "4096.0", "0x10", " 4", "18446744073709551616"}) {
    CAPTURE(text);
    CHECK(parse_count(text).has_error());
  }
}

TEST_CASE("units: what is formatted parses to the same value") {
  CHECK(format_duration(5s) == "5s");
  CHECK(format_duration(1500ms) == "1500ms");
  CHECK(format_duration(120s) == "2m");
  CHECK(format_duration(0ms) == "0s");
  CHECK(format_size(16 << 20) == "16MiB");
  CHECK(format_size(1025) == "1025");
  CHECK(format_size(0) == "0");
  for (const std::int64_t ms :
       {0LL, 1LL, 999LL, 1'000LL, 60'000LL, 61'000LL, 3'600'000LL, 9'223'372'036'854'775'807LL}) {
    CHECK(value_of(parse_duration(format_duration(std::chrono::milliseconds(ms)))).count() == ms);
  }
  for (const std::uint64_t bytes : {0ULL, 1ULL, 1'024ULL, 1'025ULL, 1ULL << 40, ~0ULL}) {
    CHECK(value_of(parse_size(format_size(bytes))) == bytes);
  }
}

TEST_CASE("nearest: a misspelt name finds the one that was meant, a far one none") {
  const std::vector<std::string_view> known{"outbox_max_bytes", "outbox_max_frames", "heartbeat", "allow"};
  CHECK(nearest("outbox_max_byte", known) == "outbox_max_bytes");
  CHECK(nearest("outbox-max-bytes", known) == "outbox_max_bytes");
  CHECK(nearest("hearbteat", known) == "heartbeat");
  CHECK(nearest("HEARTBEAT", known) == "heartbeat");
  CHECK(nearest("alow", known) == "allow");
  CHECK(nearest("ab", {"axyb", "ba"}) == "ba");  // a swap is one step
  CHECK(nearest("colour", known).empty());
  CHECK(nearest("", known).empty());
  CHECK(nearest(std::string(10'000, 'a'), known).empty());
}
