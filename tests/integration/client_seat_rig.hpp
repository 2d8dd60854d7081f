#pragma once

#include <catch2/catch.hpp>

#include "integration/client_rig.hpp"

namespace pgwake::test {

/// A client that the hub serves, subscribed to "c", and nothing waits.
struct served_client {
  client_rig r{};
  witness w = r.client();
  pgwake_handle* raw = w.client().raw();

  served_client() {
    REQUIRE(w.client().subscribe("c", 10s));
    REQUIRE(w.await_source(source::hub));
    w.forget();
  }
};

inline seen copy_of(const pgwake_event* e) { return keep(event(*e)); }

inline int next_of(pgwake_handle* raw, int timeout_ms) {
  const pgwake_event* e = nullptr;
  return pgwake_next(raw, &e, timeout_ms);
}

}  // namespace pgwake::test
