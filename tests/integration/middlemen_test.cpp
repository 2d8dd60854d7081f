// Pgpool-II and HAProxy in front of PostgreSQL. PgBouncer's cases are in upstream_server_test.cpp.
#include <catch2/catch.hpp>

#include "integration/client_rig.hpp"
#include "support/middlemen.hpp"
#include "support/skip.hpp"

using namespace pgwake::test;

namespace {

constexpr const char* needs_pgpool = "Pgpool-II is not installed: apt-get install pgpool2";
constexpr const char* needs_haproxy = "HAProxy is not installed: apt-get install haproxy";

}  // namespace

TEST_CASE("U3: Pgpool-II in raw mode in between: whoever is acked hears, at once and later") {
  if (!pgpool::installed()) SKIP_CASE(needs_pgpool);
  auto& pg = cluster::shared();
  const pgpool between(pg);
  hub_daemon hub({.database = between.conninfo(), .arguments = {"--probe-interval", "1s"}});
  auto worker = hub.connect_v1();
  worker.subscribe("c", 10s);
  pg.notify("c", "through it");
  worker.expect_wake("c", "through it", 10s);
  CHECK(worker.drain(2s).empty());  // past a probe
  pg.notify("c", "later");
  worker.expect_wake("c", "later", 10s);
}

TEST_CASE("U1: HAProxy in between serves, and a server that dies behind it is a gap") {
  if (!haproxy::installed()) SKIP_CASE(needs_haproxy);
  cluster first;
  cluster second;
  haproxy between(first, &second);
  hub_daemon hub({.database = between.conninfo()});
  auto worker = hub.connect_v1();
  worker.subscribe("c");
  first.notify("c", "of the first");
  worker.expect_wake("c", "of the first");
  first.stop(stop_mode::immediate);
  worker.await_health(false, 10s);
  CHECK(worker.expect("wake", "c", 30s).gap().has_value());
  second.notify("c", "of the second");
  worker.expect_wake("c", "of the second");
}

TEST_CASE("C2: a worker's own connection through HAProxy serves, and goes back to the hub") {
  if (!haproxy::installed()) SKIP_CASE(needs_haproxy);
  client_rig r;
  haproxy between(cluster::shared());
  witness w(r.hub().socket(), between.conninfo(r.host().database()), r.values());
  REQUIRE(w.client().subscribe("c", 10s));
  r.hub().kill();
  REQUIRE(w.await_source(pgwake::source::own));
  r.notify("c", "direct");
  CHECK(w.await_wake("c", "direct"));
  r.hub().start();
  CHECK(w.await_source(pgwake::source::hub, 30s));
}
