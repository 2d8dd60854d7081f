#include <catch2/catch.hpp>

#include "unit/common/upstream_rig.hpp"

using namespace pgwake;
using namespace std::chrono_literals;
using Catch::Contains;
using pgwake::test::upstream_rig;
using strings = std::vector<std::string>;

namespace {

upstream_rig connected(upstream::settings s = upstream_rig::defaults()) {
  upstream_rig r(s);
  r.up.start(r.now, r.out);
  CHECK(r.took() == strings{"connect"});
  CHECK(r.connected() == strings{"send identity"});
  return r;
}

}  // namespace

TEST_CASE("U3: a new session is checked step by step, and counts only then") {
  auto r = connected();
  r.up.want("c", r.now, r.out);
  CHECK(r.took().empty());  // no LISTEN before the checks are over
  CHECK(r.sql.find("pg_backend_pid()") != std::string::npos);
  CHECK(r.identity() == strings{"send system id"});
  CHECK(r.ok({"7123"}) == strings{"identified shop 7123", "send settings"});
  CHECK(r.ok({"9"}) == strings{"send LISTEN \"pgwake.fence\""});
  CHECK(r.ok() == strings{"send NOTIFY \"pgwake.fence\", E'check:1'"});
  CHECK(r.ok().empty());
  CHECK(r.up.now_in() == upstream::state::checking);
  CHECK(r.notify("check:1"));
  CHECK(r.took() == strings{"send LISTEN \"c\"", "healthy"});
  CHECK(r.ok() == strings{"activated c"});
  CHECK(r.up.session().backend_pid == 42);
}

TEST_CASE("U3: a pooler is told by its backend, before any SET or LISTEN, and refused with what to do") {
  auto r = connected();
  CHECK(r.identity("43") == strings{"close pooler", "unhealthy pooler"});
  CHECK(r.up.reason() == "pooler");
  CHECK_THAT(r.up.detail(), Contains("43") && Contains("42") && Contains("allow_session_pooler"));
}

namespace {

upstream_rig through_a_pooler() {
  auto s = upstream_rig::defaults();
  s.allow_session_pooler = true;
  auto r = connected(s);
  r.identity("43");
  return r;
}

}  // namespace

TEST_CASE(
    "U3, case 36: with allow_session_pooler it is accepted and said, once another session's NOTIFY came") {
  auto r = through_a_pooler();
  // Nothing is set in a session that may be another's next.
  CHECK(r.ok({"7"}) == strings{"identified shop 7", "send LISTEN \"pgwake.fence\""});
  CHECK(r.ok() == strings{"send NOTIFY \"pgwake.fence\", E'check:1'"});
  CHECK(r.ok().empty());
  CHECK(r.notify("check:1"));
  CHECK(r.took() == strings{"outside"});
  CHECK(r.up.now_in() == upstream::state::checking);
  CHECK(r.notify(r.check_payload()));
  CHECK(r.took() == strings{"send settings"});
  CHECK(r.ok({"9"}) == strings{"healthy"});
  CHECK(r.up.pooled());
  // The probe expects the backend that answered, not the one libpq was told.
  r.now += 15s;
  CHECK(r.tick() == strings{"send probe"});
  CHECK(r.ok({"43", "1", "0"}).empty());
}

TEST_CASE(
    "U3, case 36: a pooler that is not proven to keep the session is refused, and leaves nothing behind") {
  const strings taken_back = {"send UNLISTEN \"pgwake.fence\""};
  const strings refused = {"close pooler", "unhealthy pooler"};
  auto r = through_a_pooler();
  r.up.want("c", r.now, r.out);
  r.ok({"7"}), r.ok();
  const auto ask = [&r] {
    r.ok();
    r.notify(r.check_payload());
    CHECK(r.took() == strings{"outside"});
    return r.check_payload();
  };
  const auto told = [&r](const std::string& payload, const std::string& trouble) {
    r.up.notified_outside(payload, trouble, r.now, r.out);
    return r.took();
  };
  SECTION("proven before the end of the other session is told, and after") {
    const auto payload = ask();
    if (GENERATE(true, false)) CHECK(told(payload, "").empty());
    CHECK(r.notify(payload));
    CHECK(r.took() == strings{"send settings"});
    CHECK(told(payload, "too late to matter").empty());
    CHECK(r.ok({"9"}) == strings{"send LISTEN \"c\"", "healthy"});
  }
  SECTION("committed, and it does not come: transaction mode") {
    const auto payload = ask();
    r.now += 4s;
    CHECK(told(payload, "").empty());
    r.now += 4s;
    CHECK(r.tick().empty());
    CHECK(r.sleep() == taken_back);
    CHECK(r.ok() == refused);
    CHECK_THAT(r.up.detail(), Contains("session mode") && Contains("between transactions"));
    // The next session is asked anew, and what is left of this one counts no more.
    CHECK(r.sleep() == strings{"connect"});
    r.connected();
    r.identity("43"), r.ok({"7"}), r.ok();
    ask();
    CHECK(told(payload, "late").empty());
    CHECK(r.up.now_in() == upstream::state::checking);
  }
  SECTION("there is no second session to be had") {
    CHECK(told(ask(), "no more connections allowed") == taken_back);
    CHECK(r.error("57P01") == refused);
    CHECK_THAT(r.up.detail(), Contains("no more connections allowed"));
  }
  SECTION("nor an answer") {
    ask();
    CHECK(r.sleep() == taken_back);
    CHECK(r.sleep() == refused);  // nor to that
  }
  SECTION("its own NOTIFY cannot be committed") {
    CHECK(r.error("55P03") == taken_back);
    CHECK(r.ok() == refused);
  }
  SECTION("its own NOTIFY does not come back") {
    r.ok();
    CHECK(r.sleep() == taken_back);
    CHECK(r.ok() == refused);
  }
}

TEST_CASE("U3: a standby is refused, and tried again") {
  auto r = connected();
  CHECK(r.identity("42", "t") == strings{"close recovery", "unhealthy recovery"});
  CHECK(r.sleep() == strings{"connect"});
  auto later = connected();
  later.identity(), later.ok({"7"}), later.ok({"9"});
  CHECK(later.error("55000") == strings{"close recovery", "unhealthy recovery"});
}

TEST_CASE("U3: settings that would end an idle listener are cleared where they exist, lock_timeout is 3 s") {
  auto r = connected();
  r.identity();
  r.ok({"7"});
  for (const auto* name : {"statement_timeout", "idle_session_timeout", "transaction_timeout",
                           "client_connection_check_interval", "tcp_user_timeout", "tcp_keepalives_idle"})
    CHECK_THAT(r.sql, Contains("'" + std::string(name) + "'"));
  CHECK_THAT(r.sql,
             Contains("('lock_timeout','3000')") && Contains("pg_settings") && !Contains("client_encoding"));
}

TEST_CASE("U1: client_encoding is SQL_ASCII in a SQL_ASCII database alone") {
  auto r = connected();
  r.identity("42", "f", "SQL_ASCII");
  r.ok({"7"});
  CHECK_THAT(r.sql, Contains("('client_encoding','SQL_ASCII')"));
}

TEST_CASE(
    "S4: a name with too many bytes is refused where they count, once that is known, and never asked for") {
  std::string accents;
  for (int i = 0; i < 40; ++i) accents += "é";
  for (const std::string encoding : {"UTF8", "SQL_ASCII", "LATIN1"}) {
    CAPTURE(encoding);
    const bool counts = encoding != "LATIN1";
    const strings refused = {"refused " + accents + " "};
    auto r = connected();
    r.up.want("c", r.now, r.out);
    r.up.want(accents, r.now, r.out);
    CHECK(r.took().empty());
    CHECK(r.identity("42", "f", encoding) ==
          (counts ? strings{refused.front(), "send system id"} : strings{"send system id"}));
    r.ok({"7"}), r.ok({"9"}), r.ok(), r.ok();
    r.notify(r.check_payload());
    CHECK(r.took().front() ==
          (counts ? "send LISTEN \"c\""
                  : "send LISTEN \"c\";LISTEN \"" + accents + "\";SELECT E'c'::pg_catalog.name,E'" + accents +
                        "'::pg_catalog.name"));
    r.ok(counts ? std::vector<std::optional<std::string>>{}
                : std::vector<std::optional<std::string>>{"c", accents});
    r.up.want(accents, r.now, r.out);
    CHECK(r.took() == (counts ? refused : strings{}));
    r.lose();
    r.up.want(accents, r.now, r.out);
    CHECK(r.took() == (counts ? refused : strings{}));
    // The next server is another.
    r.sleep();
    r.connected();
    CHECK(r.identity("42", "f", "UTF8") ==
          (counts ? strings{"send system id"} : strings{refused.front(), "send system id"}));
  }
}

TEST_CASE("U3: the system identifier may be out of reach: no fault") {
  auto r = connected();
  r.identity();
  CHECK(r.error("42501") == strings{"identified shop ", "send settings"});
}

TEST_CASE("U3: the self-NOTIFY may come back before its own answer") {
  auto r = connected();
  r.identity(), r.ok({"7"}), r.ok({"9"}), r.ok();
  CHECK(r.notify(r.check_payload()));
  CHECK(r.took().empty());
  CHECK(r.ok() == strings{"healthy"});
}

TEST_CASE("U3: committed and not come back within probe_timeout: deaf, and replaced") {
  auto r = connected();
  r.identity(), r.ok({"7"}), r.ok({"9"}), r.ok();
  r.ok();
  r.now += 4s;
  r.up.heard(r.now);  // other bytes do not help
  CHECK(r.tick().empty());
  r.now += 1s;
  CHECK(r.tick() == strings{"close deaf", "unhealthy deaf"});
}

TEST_CASE("U3, case 40: a self-NOTIFY that cannot commit proves nothing and is only logged") {
  auto r = connected();
  r.identity(), r.ok({"7"}), r.ok({"9"}), r.ok();
  r.now += 7s;
  CHECK(r.tick().empty());  // lock_timeout ends the wait; it has that long and the probe's time
  CHECK(r.error("55P03") == strings{"healthy"});
  REQUIRE_FALSE(r.notes.empty());
  CHECK_THAT(r.notes.front(), Contains("55P03"));
}

TEST_CASE("U3: only this instance's own check counts, and only the present session's") {
  auto r = connected();
  r.identity(), r.ok({"7"}), r.ok({"9"}), r.ok();
  r.ok();
  CHECK_FALSE(r.notify("other:1"));
  CHECK_FALSE(r.notify("checkmate"));
  CHECK_FALSE(r.notify(""));
  CHECK(r.notify("check:0"));  // ours, from an earlier session: swallowed, proves nothing
  CHECK(r.up.now_in() == upstream::state::checking);
  r.lose();
  r.sleep();
  r.connected(), r.identity(), r.ok({"7"}), r.ok({"9"}), r.ok();
  CHECK(r.check_payload() == "check:2");
  r.ok();
  CHECK(r.notify("check:1"));
  CHECK(r.up.now_in() == upstream::state::checking);
  CHECK(r.notify("check:2"));
  CHECK(r.took() == strings{"healthy"});
}

TEST_CASE("U3: silence in any step of the check means dead") {
  for (int steps = 0; steps < 5; ++steps) {
    CAPTURE(steps);
    auto r = connected();
    if (steps > 0) r.identity();
    for (int i = 1; i < steps; ++i) r.ok({"7"});
    CHECK(r.up.now_in() == upstream::state::checking);
    CHECK(r.sleep() == strings{"close silent", "unhealthy silent"});
    CHECK(r.sleep() == strings{"connect"});
  }
}

TEST_CASE("U7: a session lost during its check is no outage of the hub's channels, but told as ill health") {
  auto r = connected();
  r.identity();
  CHECK(r.lose() == strings{"unhealthy connection_lost"});
}

TEST_CASE("U5: sessions that fail their check are retried with growing delay") {
  auto r = connected();
  millis last{0};
  for (int i = 0; i < 10; ++i) {
    r.identity("43");
    last = std::chrono::duration_cast<millis>(*r.up.deadline() - r.now);
    CHECK(r.sleep() == strings{"connect"});
    r.connected();
  }
  CHECK(last >= 2250ms);
  CHECK(last <= 3s);
}
