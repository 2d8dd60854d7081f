#include "attack/verdict.hpp"

#include <catch2/catch.hpp>

using namespace pgwake::attack;

namespace {

// As on a quiet machine: 1 ms before, 2 ms during the attack.
outcome calm() {
  outcome o;
  o.p50_before_ms = 0.5;
  o.p99_before_ms = 1;
  o.p50_ms = 0.6;
  o.p99_ms = 2;
  o.direct_p99_ms = 1;
  o.ack_ms = 10;
  o.served = {1'000, 0};
  return o;
}

template <class Change>
std::size_t faults_with(Change change) {
  auto o = calm();
  change(o);
  return faults_of(o).size();
}

}  // namespace

TEST_CASE("an attack that harms nobody has held", "[attack]") { CHECK(faults_of(calm()).empty()); }

TEST_CASE("each harm is a fault of its own", "[attack]") {
  CHECK(faults_with([](outcome& o) { o.p99_ms = 21; }) == 1);
  CHECK(faults_with([](outcome& o) { o.p99_ms = 0; }) == 1);
  CHECK(faults_with([](outcome& o) { o.ack_ms = 1'001; }) == 1);
  CHECK(faults_with([](outcome& o) { o.resident = 25U << 20U; }) == 1);
  CHECK(faults_with([](outcome& o) { o.lost = 1; }) == 1);
  CHECK(faults_with([](outcome& o) { o.doubled = 1; }) == 1);
  CHECK(faults_with([](outcome& o) { o.gaps = 1; }) == 1);
  CHECK(faults_with([](outcome& o) { o.fallen = 1; }) == 1);
  CHECK(faults_with([](outcome& o) { o.log_bytes = (1U << 20U) + 1; }) == 1);
}

TEST_CASE("what is counted may be resident, half as much again", "[attack]") {
  CHECK(faults_with([](outcome& o) {
          o.counted = 100U << 20U;
          o.resident = 174U << 20U;
        }) == 0);
  CHECK(faults_with([](outcome& o) {
          o.counted = 100U << 20U;
          o.resident = 175U << 20U;
        }) == 1);
}

TEST_CASE("others' wakes are measured against what the machine does to everybody", "[attack]") {
  CHECK(faults_with([](outcome& o) { o.p99_ms = 20; }) == 0);  // 5 x 4 ms
  CHECK(faults_with([](outcome& o) {
          o.p99_before_ms = 10;
          o.p99_ms = 50;
        }) == 0);
  CHECK(faults_with([](outcome& o) {
          o.direct_p99_ms = 10;
          o.p99_ms = 50;
        }) == 0);
  CHECK(faults_with([](outcome& o) {
          o.direct_p99_ms = 10;
          o.p99_ms = 51;
        }) == 1);
}

TEST_CASE("what hub and backend waited for a processor is not the attack's doing, within limits",
          "[attack]") {
  CHECK(stretch({0, 0}) == 1);
  CHECK(stretch({100, 0}) == 1);
  CHECK(stretch({100, 100}) == 2);
  CHECK(stretch({1, 1'000}) == 4);
  CHECK(faults_with([](outcome& o) {
          o.served = {100, 100};
          o.p99_ms = 40;
          o.ack_ms = 2'000;
        }) == 0);
  CHECK(faults_with([](outcome& o) {
          o.served = {100, 100};
          o.p99_ms = 41;
          o.ack_ms = 2'001;
        }) == 2);
}

TEST_CASE("a row says at which try an attack held, or every fault", "[attack]") {
  const attack a{"name", "worker", "what", nullptr};
  auto o = calm();
  CHECK(
      attack_row(a, o) ==
      "| name | worker | what | 0.50 → 0.60 | 1.00 → 2.00 | 1.00 | 100 | 10 | 0 / 0 | 0, 0, 0 | 0 | held |\n");
  o.tries = 2;
  CHECK(attack_row(a, o).find("| held at try 2 |\n") != std::string::npos);
  o.faults = {"one", "two"};
  CHECK(attack_row(a, o).find("| one; two |\n") != std::string::npos);
}

TEST_CASE("the section of a document is replaced, or put in front of another", "[attack]") {
  const std::string section = "## New\n\nx\n\n";
  const std::string plain = "# T\n\n## A\n\na\n\n## B\n\nb\n";
  const std::string with = "# T\n\n## A\n\na\n\n## New\n\nx\n\n## B\n\nb\n";
  CHECK(with_section(plain, "## New", "## B", section) == with);
  CHECK(with_section(with, "## New", "## B", section) == with);
  CHECK(with_section("# T\n\n## New\n\nold\n### C\n\n## B\n\nb\n", "## New", "## B", section) ==
        "# T\n\n## New\n\nx\n\n## B\n\nb\n");
  CHECK_THROWS(with_section(plain, "## New", "## C", section));
}
