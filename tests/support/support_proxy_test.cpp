#include <catch2/catch.hpp>

#include "support/cluster.hpp"
#include "support/eventually.hpp"
#include "support/fault_proxy.hpp"

using namespace pgwake::test;

TEST_CASE("support: the proxy relays, counts, and sees queries") {
  auto& db = cluster::shared();
  fault_proxy proxy(db);
  connection through(proxy.conninfo());
  CHECK(through.value("SELECT 1") == "1");
  CHECK(through.value("SELECT length(repeat('x', 3000000))") == "3000000");
  CHECK(through.value("SELECT repeat('x', 3000000)").size() == 3000000);
  CHECK(proxy.accepted() == 1);
  CHECK(proxy.open() == 1);
  CHECK(proxy.queries().at(0) == "SELECT 1");
  { const connection second(proxy.conninfo()); }
  CHECK(proxy.accepted() == 2);
  REQUIRE_EVENTUALLY(proxy.open() == 1, 10s);
}

TEST_CASE("support: the proxy answers a LISTEN with an error, once") {
  auto& db = cluster::shared();
  fault_proxy proxy(db);
  connection through(proxy.conninfo());
  proxy.fail_query("LISTEN \"bad\"", "58P01", 1);
  through.exec("LISTEN \"good\"");
  try {
    through.exec("LISTEN \"also\"; LISTEN \"bad\"");
    FAIL("no error came");
  } catch (const sql_error& error) {
    CHECK(error.sqlstate == "58P01");
  }
  through.exec("LISTEN \"bad\"");
  CHECK(through.value("SELECT string_agg(c, ',') FROM pg_listening_channels() c") == "good,bad");
}

TEST_CASE("support: the proxy swallows statements and notifications") {
  auto& db = cluster::shared();
  fault_proxy proxy(db);
  connection through(proxy.conninfo());
  proxy.swallow_query("LISTEN b");
  through.exec("LISTEN a");
  through.exec("LISTEN b; LISTEN c");
  CHECK(through.value("SELECT string_agg(c, ',') FROM pg_listening_channels() c") == "a");
  proxy.deafen();
  db.notify("a", "unheard");
  CHECK_FALSE(through.next_notification(100ms).has_value());
  CHECK(through.value("SELECT repeat('A', 1000000)").size() == 1000000);
  proxy.deafen(false);
  db.notify("a", "heard");
  CHECK(through.next_notification(10s)->payload == "heard");
}

TEST_CASE("support: the proxy holds queries and answers back, while notifications flow past a held query") {
  auto& db = cluster::shared();
  fault_proxy proxy(db);
  connection through(proxy.conninfo());
  through.exec("LISTEN c");
  const auto held = 2s;
  proxy.hold_query("SELECT 'held'", held);
  const auto begun = clock::now();
  through.send("SELECT 'held'");
  db.notify("c", "past");
  REQUIRE(through.next_notification(held).has_value());
  CHECK(clock::now() - begun < held);
  through.exec("SELECT 2");
  CHECK(clock::now() - begun >= held);

  proxy.hold_answer("SELECT 'answer'", held);
  CHECK(time_of([&] { through.exec("SELECT 'answer'"); }) >= held - 10ms);
  CHECK(time_of([&] { through.exec("SELECT 'answer'"); }) < held);
  proxy.delay(50ms);
  CHECK(time_of([&] { through.exec("SELECT 3"); }) >= 95ms);
}

TEST_CASE("support: the proxy's black hole loses nothing and says nothing") {
  auto& db = cluster::shared();
  fault_proxy proxy(db);
  connection through(proxy.conninfo());
  through.exec("LISTEN c");
  proxy.black_hole();
  db.notify("c", "delayed");
  CHECK_FALSE(through.next_notification(200ms).has_value());
  CHECK(through.usable());
  proxy.end_black_hole();
  CHECK(through.next_notification(10s).has_value());

  proxy.black_hole(direction::to_server);
  db.notify("c", "flows");
  CHECK(through.next_notification(10s).has_value());
  proxy.end_black_hole();
}

TEST_CASE("support: the proxy refuses, hangs, cuts and resets") {
  auto& db = cluster::shared();
  fault_proxy proxy(db);
  connection through(proxy.conninfo());

  SECTION("refuse, and open again") {
    proxy.refuse();
    CHECK_THROWS_WITH(connection(proxy.conninfo()), Catch::Contains("refused"));
    CHECK(through.value("SELECT 1") == "1");
    proxy.refuse(false);
    CHECK(connection(proxy.conninfo()).value("SELECT 1") == "1");
  }
  SECTION("hang") {
    proxy.hang_connects();
    CHECK_THROWS_WITH(connection(proxy.conninfo() + " connect_timeout=2"), Catch::Contains("timeout"));
  }
  SECTION("hang after authentication") {
    proxy.stall_after(9);
    CHECK_THROWS_WITH(connection(proxy.conninfo() + " connect_timeout=2 sslmode=disable"),
                      Catch::Contains("timeout"));
    proxy.end_limits();
    CHECK(connection(proxy.conninfo()).value("SELECT 1") == "1");
  }
  SECTION("cut") {
    proxy.cut_after(5);
    CHECK_THROWS_WITH(connection(proxy.conninfo()), Catch::Contains("closed the connection unexpectedly"));
  }
  SECTION("reset") {
    proxy.reset_all();
    CHECK_THROWS_AS(through.exec("SELECT 1"), sql_error);
    CHECK(proxy.open() == 0);
  }
  SECTION("close") {
    proxy.close_all();
    CHECK_THROWS_AS(through.exec("SELECT 1"), sql_error);
  }
  SECTION("another target") {
    proxy.set_target({1});
    CHECK_THROWS_AS(connection(proxy.conninfo()), sql_error);
    proxy.set_target({db.port()});
    CHECK(connection(proxy.conninfo()).value("SELECT 1") == "1");
  }
}

TEST_CASE("support: the proxy stands between Unix sockets too") {
  auto& db = cluster::shared();
  const temp_dir directory;
  fault_proxy proxy({0, directory / ".s.PGSQL.5432"},
                    {0, db.directory() + "/.s.PGSQL." + std::to_string(db.port())}, true);
  connection through("host=" + directory.path() + " port=5432 user=postgres dbname=postgres");
  CHECK(through.value("SELECT 1") == "1");
  CHECK(proxy.queries().size() == 1);
}
