// A server, or something in between, that answers what nobody asked for: the session ends with a reason, the
// hub goes on, and its memory stays.
#include <catch2/catch.hpp>

#include "integration/hostile_server.hpp"
#include "integration/rig.hpp"
#include "support/sanitizer.hpp"

using namespace pgwake::test;
namespace say = pgwake::test::server;

TEST_CASE(
    "a hostile server: whatever LISTEN is answered with, the session ends, and everybody is served again") {
  rig r({.arguments = {"--unlisten-linger", "0s"}, .through_proxy = true});
  auto worker = r.worker();
  worker.subscribe("c");
  const auto before = r.hub().child().rss_kib();
  int number = 0;
  for (const auto& one : lies()) {
    INFO(one.what);
    const auto name = "x" + std::to_string(++number);
    r.proxy().answer_query("LISTEN \"" + name + "\"", one.bytes);
    const auto accepted = r.proxy().accepted();
    worker.sub(name);
    REQUIRE_EVENTUALLY(r.proxy().accepted() > accepted, 20s);
    std::size_t acks = 0;
    std::size_t gaps = 0;
    REQUIRE_EVENTUALLY(([&] {
                         for (const auto& frame : worker.until_pong(5s)) {
                           acks += frame.t() == "ack" && frame.q() == name ? 1 : 0;
                           gaps +=
                               frame.t() == "wake" && frame.q() == "c" && frame.gap() == "reconnect" ? 1 : 0;
                         }
                         return acks == 1 && gaps == 1;
                       }()),
                       20s);
    r.notify(name, "after it");
    worker.expect_wake(name, "after it");
    worker.unsub(name);
    r.proxy().clear_rules();
    if (!sanitized) CHECK(r.hub().child().rss_kib() < before + 64 * 1024);
  }
  const auto cpu = r.hub().child().cpu_time();
  worker.drain(500ms);
  CHECK(r.hub().child().cpu_time() - cpu < 300ms);
  CHECK(r.hub().stop() == 0);
}

TEST_CASE("a hostile server: what an idle session never asked for ends it") {
  rig r({.through_proxy = true});
  auto worker = r.worker();
  worker.subscribe("c");
  const std::vector<lie> unasked = {
      {"a row", say::row("x")},
      {"CopyIn", say::copy('G')},
      {"a notification of megabytes", say::notification(1, "c", std::string(1U << 20U, 'p'))},
      {"ParameterStatus without end", [] {
         std::string all;
         for (int i = 0; i < 400'000; ++i) all += say::parameter("parameter_" + std::to_string(i), "value");
         return all;
       }()}};
  for (const auto& one : unasked) {
    INFO(one.what);
    r.proxy().say(one.bytes);
    CHECK(worker.expect("wake", "c", 15s).gap() == "reconnect");
    r.notify("c", "after it");
    worker.expect_wake("c", "after it");
  }
}

TEST_CASE("a hostile server: a refused login is known by its SQLSTATE, in any language, and never by words") {
  rig r({.through_proxy = true, .until = readiness::healthy});
  const auto refuse = [&](std::string_view severity, std::string_view sqlstate, std::string_view words) {
    r.proxy().answer_logins(say::trouble('E', severity, sqlstate, words));
    r.proxy().reset_all();
  };
  auto worker = r.worker();
  const auto reason_comes = [&](std::string_view wanted) {
    const auto status = worker.next(2s);
    return status && status->t() == "status" && status->string("reason") == wanted;
  };
  refuse("FATAL", "28P01", "authentification par mot de passe échouée pour l'utilisateur « app »");
  REQUIRE_EVENTUALLY(reason_comes("login"), 10s);
  refuse("FATAL", "57P03", "password authentication failed, says a server that only starts up");
  REQUIRE_EVENTUALLY(reason_comes("connecting"), 40s);
}
