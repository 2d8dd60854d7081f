#pragma once

#include <catch2/catch.hpp>
#include <initializer_list>

#include "integration/client_rig.hpp"
#include "support/process.hpp"

namespace pgwake::test {

/// Runs the program client_exits in each of these ways, served by the hub and by itself: it ends, and says
/// nothing.
inline void check_that_it_exits(client_rig& r, std::initializer_list<const char*> ways) {
  for (const char* policy : {"listener", "direct"}) {
    for (const char* how : ways) {
      INFO(policy << ", " << how);
      process p({.argv = {CLIENT_EXITS, how},
                 .env = {{"PGWAKE_SOCKET", r.hub().socket()},
                         {"PGWAKE_DATABASE", r.conninfo()},
                         {"PGWAKE_POLICY", policy}}});
      CHECK(p.wait(10s) == 0);
      CHECK(p.err().empty());
    }
  }
}

}  // namespace pgwake::test
