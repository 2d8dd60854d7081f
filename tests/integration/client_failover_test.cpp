#include <catch2/catch.hpp>

#include "integration/client_rig.hpp"
#include "support/background.hpp"
#include "support/pgbouncer.hpp"

using namespace pgwake;
using namespace pgwake::test;

TEST_CASE(
    "C2 C5: the hub is killed: own connection, whole set, one gap on each channel; and back when it "
    "returns") {
  client_rig r;
  auto w = r.client();
  const std::vector<std::string> channels = {"a", "B", "日本"};
  REQUIRE(w.client().subscribe(channels, 10s).empty());
  r.notify("a", "before");
  REQUIRE(w.await_wake("a", "before"));
  r.hub().kill();
  REQUIRE(w.await_source(source::own));
  for (const auto& c : channels)
    CHECK(w.count([&](const seen& e) { return e.channel == c && e.gap == "hub_lost"; }) == 1);
  for (const auto& c : channels) {
    r.notify(c, "own");
    CHECK(w.await([&](const seen& e) {
      return e.channel == c && e.payload == "own" && e.source == PGWAKE_SOURCE_OWN;
    }));
  }
  CHECK(r.own_census() == 1);
  REQUIRE(w.client().subscribe("later", 10s));
  r.notify("later", "x");
  CHECK(w.await_wake("later", "x"));

  r.hub().start();
  REQUIRE(r.hub().await_health());
  REQUIRE(w.await_source(source::hub));
  CHECK(w.gaps() == channels.size());  // none for the return
  REQUIRE(eventually(5s, [&] { return r.own_census() == 0; }));
  for (const auto* c : {"a", "later"}) {
    r.notify(c, "hub");
    CHECK(w.await([&](const seen& e) {
      return e.channel == c && e.payload == "hub" && e.source == PGWAKE_SOURCE_HUB;
    }));
  }
  CHECK(w.client().state().handovers == 1);
}

TEST_CASE("C2: neither hub nor server: nothing is final, whichever comes first serves") {
  client_rig r;
  fault_proxy door(rig::pg());
  door.refuse();
  r.hub().kill();
  witness w(r.hub().socket(), door.conninfo(r.host().database()), r.values());
  CHECK_FALSE(w.client().subscribe("c", 700ms));
  CHECK(w.client().state().source == PGWAKE_SOURCE_NONE);
  CHECK_FALSE(std::string(w.client().state().reason).empty());

  SECTION("the server") {
    background asking([&](const auto&) { CHECK(w.client().subscribe("c", 20s)); });
    std::this_thread::sleep_for(300ms);
    door.refuse(false);
    asking.join();
    CHECK(w.client().state().source == PGWAKE_SOURCE_OWN);
  }
  SECTION("the hub") {
    background asking([&](const auto&) { CHECK(w.client().subscribe("c", 20s)); });
    std::this_thread::sleep_for(300ms);
    r.hub().start();
    asking.join();
    CHECK(w.client().state().source == PGWAKE_SOURCE_HUB);
  }
  r.notify("c", "x");
  CHECK(w.await_wake("c", "x"));
}

TEST_CASE("C2 C5: an own connection that is lost comes back by itself, with a gap") {
  client_rig r;
  auto w = r.client({{"policy", "direct"}});
  REQUIRE(w.client().subscribe("c", 10s));
  for (int i = 0; i < 5; ++i) {
    w.forget();
    REQUIRE(r.terminate_own() >= 1);  // the last one's backend may still be on its way out
    REQUIRE(w.await([](const seen& e) { return e.channel == "c" && e.gap == "reconnect"; }));
    r.notify("c", std::to_string(i));
    REQUIRE(w.await_wake("c", std::to_string(i)));
  }
}

TEST_CASE("C3: poll reminds while degraded and is silent while all is well") {
  client_rig r;
  auto w = r.client({{"policy", "poll"}});
  REQUIRE(w.client().subscribe("c", 10s));
  w.take(400ms);
  CHECK(w.count([](const seen& e) { return e.wake(); }) == 0);
  r.hub().kill();
  REQUIRE(
      w.await([](const seen& e) { return e.kind == PGWAKE_EVENT_STATE && e.source == PGWAKE_SOURCE_NONE; }));
  for (int i = 0; i < 3; ++i) {
    w.forget();
    REQUIRE(w.await(
        [](const seen& e) { return e.durable() && e.channel == "c" && e.source == PGWAKE_SOURCE_NONE; }));
  }
  CHECK(time_of([&] { REQUIRE(w.client().subscribe("new", 10s)); }) < at_load(1s));
  CHECK(r.own_census() == 0);
  r.hub().start();
  REQUIRE(w.await_gap("c"));
  REQUIRE(w.await_gap("new"));
  REQUIRE(w.await_source(source::hub));
  w.take(300ms);
  w.forget();
  w.take(400ms);
  CHECK(w.count([](const seen& e) { return e.wake(); }) == 0);
}

TEST_CASE("C3: safety_poll reminds while all is well; none only reports; direct never asks the hub") {
  client_rig r;
  auto safe = r.client({{"policy", "poll"}, {"safety_poll", "150ms"}});
  REQUIRE(safe.client().subscribe("c", 10s));
  for (int i = 0; i < 3; ++i) {
    safe.forget();
    REQUIRE(safe.await([](const seen& e) { return e.durable() && e.channel == "c"; }));
  }

  auto none = r.client({{"policy", "none"}});
  REQUIRE(none.client().subscribe("c", 10s));
  auto direct = r.client({{"policy", "direct"}});
  REQUIRE(direct.client().subscribe("c", 10s));
  CHECK(direct.client().state().hub_connects == 0);
  CHECK(r.own_census() == 1);

  r.hub().kill();
  REQUIRE(none.await(
      [](const seen& e) { return e.kind == PGWAKE_EVENT_STATE && e.source == PGWAKE_SOURCE_NONE; }));
  CHECK(time_of([&] { REQUIRE(none.client().subscribe("new", 10s)); }) < at_load(1s));
  none.take(400ms);
  CHECK(none.count([](const seen& e) { return e.wake(); }) == 0);
  r.notify("c", "x");
  CHECK(direct.await_wake("c", "x"));
  r.hub().start();
  REQUIRE(none.await_gap("c"));
  REQUIRE(none.await_gap("new"));
  r.notify("new", "y");
  REQUIRE(none.await_wake("new", "y"));
}

TEST_CASE("C4: what makes a client leave a hub") {
  struct trouble {
    const char* name;
    fake_hub::script play;
  };
  fake_hub* hub = nullptr;
  const auto acking = [&hub](int fd, const auto& say) {
    while (auto f = hub->hear(fd))
      if (f->t() == "sub") say(R"({"t":"ack","q":)" + json_string(f->q()) + "}");
  };
  const std::vector<trouble> troubles = {
      {"no welcome", [&](int fd, const auto&) { hub->ignore(fd); }},
      {"end of file", [&](int, const auto& say) { say(fake_hub::welcome()); }},
      {"bye",
       [&](int fd, const auto& say) {
         say(fake_hub::welcome());
         say(fake_hub::healthy);
         say(R"({"t":"bye","code":"limit","reason":"testing"})");
         hub->ignore(fd);
       }},
      {"a malformed frame",
       [&](int fd, const auto& say) {
         say(fake_hub::welcome());
         say("[]");
         hub->ignore(fd);
       }},
      {"another protocol",
       [&](int fd, const auto& say) {
         say(fake_hub::healthy);
         hub->ignore(fd);
       }},
      {"silence for three heartbeats",
       [&](int fd, const auto& say) {
         say(fake_hub::welcome(200));
         say(fake_hub::healthy);
         acking(fd, say);
       }},
      {"no ack while it says that it is healthy",
       [&](int fd, const auto& say) {
         say(fake_hub::welcome());
         say(fake_hub::healthy);
         hub->ignore(fd);
       }},
      {"ill for longer than the grace",
       [&](int fd, const auto& say) {
         say(fake_hub::welcome());
         say(fake_hub::ill);
         hub->ignore(fd);
       }},
  };
  client_rig r;
  for (const auto& t : troubles) {
    INFO(t.name);
    fake_hub fake(t.play);
    hub = &fake;
    witness w(
        fake.path(), r.conninfo(),
        r.values({{"welcome_timeout", "500ms"}, {"ack_timeout", "500ms"}, {"unhealthy_grace", "500ms"}}));
    REQUIRE(w.client().subscribe("c", 15s));
    REQUIRE(w.await_source(source::own));
    r.notify("c", t.name);
    CHECK(w.await_wake("c", t.name));
    CHECK(fake.connections() >= 1);
  }
}

TEST_CASE("C5 U3: an own connection through a pooler is refused by its name, and tried again") {
  client_rig r;
  pgbouncer pooler(rig::pg(), "transaction");
  witness w(r.hub().socket(), pooler.conninfo(r.host().database()), r.values());
  REQUIRE(w.client().subscribe("c", 10s));  // by the hub
  r.hub().kill();
  REQUIRE(eventually(
      10s, [&] { return std::string(w.client().state().reason).find("pooler") != std::string::npos; }));
  CHECK(w.client().state().source == PGWAKE_SOURCE_NONE);
  r.hub().start();
  REQUIRE(w.await_source(source::hub));
  CHECK(w.await_gap("c"));
}

TEST_CASE(
    "C2 C5 U3: with allow_session_pooler an own connection serves through a pool in session mode, and no "
    "other") {
  client_rig r;
  const std::string mode = GENERATE("session", "transaction");
  INFO(mode);
  pgbouncer pooler(rig::pg(), mode);
  witness w(r.hub().socket(), pooler.conninfo(r.host().database()),
            r.values({{"policy", "direct"}, {"allow_session_pooler", "on"}, {"probe_timeout", "1s"}}));
  if (mode == "session") {
    REQUIRE(w.client().subscribe("c", 10s));
    r.notify("c", "x");
    CHECK(w.await_wake("c", "x"));
    CHECK(r.own_census() == 1);
  } else {
    CHECK_FALSE(w.client().subscribe("c", 3s));
    CHECK_THAT(w.client().state().reason, Catch::Contains("session mode"));
  }
}

TEST_CASE("C5 U3: role settings that end idle sessions do not end an own connection") {
  client_rig r;
  rig::pg().exec(
      "DROP ROLE IF EXISTS hasty; CREATE ROLE hasty LOGIN; "
      "ALTER ROLE hasty SET statement_timeout = '100ms'");
  if (std::stoi(rig::pg().value("SHOW server_version_num")) >= 140000)
    rig::pg().exec("ALTER ROLE hasty SET idle_session_timeout = '500ms'");
  witness w(r.hub().socket(), rig::pg().conninfo(r.host().database(), "hasty"),
            r.values({{"policy", "direct"}}));
  REQUIRE(w.client().subscribe("c", 10s));
  w.take(1'500ms);
  CHECK(w.gaps() == 0);
  r.notify("c", "x");
  CHECK(w.await_wake("c", "x"));
  CHECK(w.client().state().own_connects == 1);
}

TEST_CASE("case 12: whatever is wrong with the path, the client falls back within its deadline") {
  client_rig r;
  temp_dir home;
  write_file(home / "plain", "");
  const auto dead = home / "dead.sock";
  std::vector<std::string> paths = {home / "missing", home / "no/such/dir", home / "plain", home.path(),
                                    "/" + std::string(106, 'x')};
  {
    fake_hub gone([](int, const auto&) {});
    paths.push_back(gone.path());
  }
  for (const auto& path : paths) {
    INFO(path);
    witness w(path, r.conninfo(), r.values());
    CHECK(time_of([&] { REQUIRE(w.client().subscribe("c", 5s)); }) < at_load(3s));
    r.notify("c", "x");
    CHECK(w.await_wake("c", "x"));
  }
  CHECK_THROWS_WITH(options().set("socket", "/" + std::string(107, 'x')), Catch::Contains("107"));
}

TEST_CASE("case 25: the hub is stopped by a signal: every client falls back by its deadline, none hangs") {
  client_rig r;
  r.hub().child().signal(SIGSTOP);
  std::vector<std::unique_ptr<witness>> all;
  const auto began = clock::now();
  for (int i = 0; i < 60; ++i)
    all.push_back(std::make_unique<witness>(r.hub().socket(), r.conninfo(), r.values()));
  for (auto& w : all) CHECK(w->client().subscribe("c", 10s));
  CHECK(clock::now() - began < at_load(10s));
  r.notify("c", "x");
  for (auto& w : all) CHECK(w->await_wake("c", "x"));
  r.hub().child().signal(SIGCONT);
  for (auto& w : all) CHECK(w->await_source(source::hub, 20s));
  CHECK(eventually(5s, [&] { return r.own_census() == 0; }));
}

TEST_CASE("case 37: the hub serves another database: refused, served by an own connection") {
  client_rig r;
  const auto other = rig::pg().new_database();
  witness w(r.hub().socket(), rig::pg().conninfo(other), r.values());
  REQUIRE(w.client().subscribe("c", 10s));
  REQUIRE(w.await_source(source::own));
  rig::pg().notify("c", "mine", other);
  CHECK(w.await_wake("c", "mine"));
  w.take(1s);
  CHECK(w.client().state().source == PGWAKE_SOURCE_OWN);
}
