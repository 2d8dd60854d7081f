#pragma once

#include <catch2/catch.hpp>
#include <iostream>
#include <string>

namespace pgwake::test {

/// A line that scripts/test counts: Catch2 2 knows no skipped test case. `why` also says what to do to run
/// it.
inline void say_skipped(const std::string& why) {
  std::cout << "skipped: " << why << " -- " << Catch::getResultCapture().getCurrentTestName() << std::endl;
}

inline constexpr const char* needs_root = "needs root: run the tests as root";

}  // namespace pgwake::test

/// Ends the test case that it stands in.
#define SKIP_CASE(why)                \
  do {                                \
    ::pgwake::test::say_skipped(why); \
    return;                           \
  } while (false)
