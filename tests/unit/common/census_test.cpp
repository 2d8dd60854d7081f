#include "common/census.hpp"

#include <catch2/catch.hpp>

using namespace pgwake;

TEST_CASE("census: a host's name comes whole into every application_name that PostgreSQL keeps") {
  const std::string short_enough(47, 'h');
  CHECK(census_host("db1.example") == "db1.example");
  CHECK(census_host(short_enough) == short_enough);
  for (const std::size_t length : {48U, 64U, 255U}) {
    const auto name = census_host(std::string(length, 'h'));
    for (const auto prefix : {hub_prefix, check_prefix, fallback_prefix})
      CHECK((std::string(prefix) + name).size() <= max_application_name);
  }
}

TEST_CASE("census: hosts whose long names begin alike stay apart") {
  const std::string beginning(60, 'h');
  CHECK(census_host(beginning + "1") != census_host(beginning + "2"));
  CHECK(census_host(beginning + "1") == census_host(beginning + "1"));
  CHECK(census_host(beginning) == std::string(38, 'h') + "~" + census_host(beginning).substr(39));
}
