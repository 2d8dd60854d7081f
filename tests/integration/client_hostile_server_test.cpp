// The library on its own connection, against a server, or something in between, that answers what nobody
// asked for: while it connects, is checked, subscribes, and listens. That session is lost with a reason, the
// library's memory stays, it can be closed, and a good server is listened to again.
#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "integration/hostile_server.hpp"
#include "integration/rig.hpp"
#include "support/process.hpp"
#include "support/sanitizer.hpp"

using namespace pgwake::test;
namespace say = pgwake::test::server;

namespace {

/// Something in between that lies, and a program of its own whose library listens through it.
class lied_to {
 public:
  lied_to()
      : proxy_(rig::pg()),
        program_({.argv = {DIRECT_LISTENER, "c"},
                  .env = {{"PGWAKE_DATABASE", proxy_.conninfo(database_)}, {"PGWAKE_POLICY", "direct"}}}) {
    const bool subscribed = program_.wait_for_out("subscribed ok", 20s);
    INFO(program_.out() << program_.err());
    REQUIRE(subscribed);
  }

  fault_proxy& proxy() { return proxy_; }
  process& program() { return program_; }

  /// What it has printed since `from`.
  std::string said(std::size_t from) const { return program_.out().substr(from); }

  /// Events come again, after a gap.
  void expect_served(std::size_t from) {
    REQUIRE_EVENTUALLY(said(from).find("gap reconnect\n") != std::string::npos, 30s);
    const auto mark = "after lie " + std::to_string(++number_);
    rig::pg().notify("c", mark, database_);
    REQUIRE_EVENTUALLY(said(from).find("wake " + mark + "\n") != std::string::npos, 10s);
  }

 private:
  std::string database_ = rig::pg().new_database();
  fault_proxy proxy_;
  process program_;
  int number_ = 0;
};

/// A time of a session's life, and how the liar has his turn then.
struct phase {
  const char* when;
  std::function<void(fault_proxy&, const std::string& bytes)> lie;  // until the rules are cleared
  std::size_t connections;                                          ///< to be waited for
};

void to_query(fault_proxy& proxy, const char* text, const std::string& bytes) {
  proxy.answer_query(text, bytes, -1);
  proxy.reset_all();
}

const std::vector<phase>& phases() {
  static const std::vector<phase> all = {
      {"connecting",
       [](fault_proxy& p, const std::string& bytes) {
         p.answer_logins(say::message('R', say::number(0, 4)) + bytes);
         p.reset_all();
       },
       2},
      {"its first check",
       [](fault_proxy& p, const std::string& bytes) {
         to_query(p, "SELECT pg_catalog.pg_backend_pid()", bytes);
       },
       2},
      {"its settings", [](fault_proxy& p, const std::string& bytes) { to_query(p, "set_config", bytes); }, 2},
      {"its NOTIFY to itself", [](fault_proxy& p, const std::string& bytes) { to_query(p, "NOTIFY", bytes); },
       2},
      {"LISTEN", [](fault_proxy& p, const std::string& bytes) { to_query(p, "LISTEN \"c\"", bytes); }, 2},
      {"listening", [](fault_proxy& p, const std::string& bytes) { p.say(bytes); }, 1},
  };
  return all;
}

}  // namespace

TEST_CASE("C9: a hostile server costs the library that session, and it listens to a good one again") {
  for (const auto& at : phases()) {
    lied_to client;
    const auto before = client.program().rss_kib();
    long most = 0;
    for (const auto& one : lies()) {
      INFO(at.when << ": " << one.what);
      const auto from = client.program().out().size();
      const auto accepted = client.proxy().accepted();
      at.lie(client.proxy(), one.bytes);
      // Lost with a reason, again and again where the liar goes on.
      const bool lost = eventually(30s, [&] {
        most = std::max(most, client.program().rss_kib());
        return client.proxy().accepted() >= accepted + at.connections &&
               (at.connections == 1 || client.said(from).find(" ill own connection: ") != std::string::npos);
      });
      INFO(client.said(from));
      REQUIRE(lost);
      CHECK(client.said(from).find("failed:\n") == std::string::npos);  // and no more words
      client.proxy().answer_logins("");
      client.proxy().clear_rules();
      client.expect_served(from);
    }
    if (!sanitized) CHECK(most < before + 32 * 1024);
    WARN(at.when << ": " << before << " KiB, at most " << most << " KiB");
    const auto cpu = client.program().cpu_time();
    std::this_thread::sleep_for(500ms);
    CHECK(client.program().cpu_time() - cpu < 300ms);
  }
}

TEST_CASE("C9: a library that is being lied to is closed at once") {
  for (const auto& at : phases()) {
    for (const auto& one : lies()) {
      if (one.bytes.size() < 100 && one.what != std::string("CopyBoth")) continue;  // over at once
      INFO(at.when << ": " << one.what);
      lied_to client;
      at.lie(client.proxy(), one.bytes);
      const auto queries = [&] { return client.proxy().queries().size(); };
      const auto asked = queries();
      REQUIRE_EVENTUALLY(queries() > asked || client.said(0).find(" ill ") != std::string::npos, 30s);
      client.program().signal(SIGTERM);
      const auto exit = client.program().wait(at_load(10s));
      REQUIRE(exit == 0);
      const auto out = client.said(0);
      const auto closed = out.find("closed in ");
      REQUIRE(closed != std::string::npos);
      CHECK(milliseconds(std::stoi(out.substr(closed + 10))) < at_load(1s));
    }
  }
}
