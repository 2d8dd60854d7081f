#include <catch2/catch.hpp>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "client/src/settings/settings.hpp"

using namespace pgwake;
using namespace pgwake::client;

namespace {

environment env(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) -> const char* {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  };
}

std::string fault_of(const values& program, const environment& outside = {}) {
  std::string fault;
  CHECK_FALSE(resolve(program, outside, fault));
  return fault;
}

settings resolved(const values& program, const environment& outside = {}) {
  std::string fault;
  auto s = resolve(program, outside, fault);
  INFO(fault);
  REQUIRE(s);
  return *s;
}

}  // namespace

TEST_CASE("the client's defaults are those that its table says") {
  const auto defaults = resolved({});
  values written;
  for (const auto& o : option_table())
    if (*o.default_value != '\0') written[o.name] = o.default_value;
  const auto same = resolved(written);
  CHECK(same.socket == defaults.socket);
  CHECK(same.hub_user == defaults.hub_user);
  CHECK(same.fallback_limit == defaults.fallback_limit);
  CHECK(same.fallback_dir == defaults.fallback_dir);
  CHECK(same.queue_max_bytes == defaults.queue_max_bytes);
  CHECK(same.connect_timeout == defaults.connect_timeout);
  CHECK(same.upstream.probe_interval == defaults.upstream.probe_interval);
  CHECK(same.upstream.probe_timeout == defaults.upstream.probe_timeout);
  CHECK(same.upstream.allow_session_pooler == defaults.upstream.allow_session_pooler);
  const auto& a = same.failover;
  const auto& b = defaults.failover;
  CHECK(a.policy == b.policy);
  CHECK(a.reattach == b.reattach);
  CHECK(a.limited == b.limited);
  CHECK(a.poll_interval == b.poll_interval);
  CHECK(a.safety_poll == b.safety_poll);
  CHECK(a.unhealthy_grace == b.unhealthy_grace);
  CHECK(a.return_delay == b.return_delay);
  CHECK(a.return_delay_cap == b.return_delay_cap);
  CHECK(a.handover_deadline == b.handover_deadline);
  CHECK(a.handover_max_bytes == b.handover_max_bytes);
  CHECK(a.welcome_timeout == b.welcome_timeout);
  CHECK(a.ack_timeout == b.ack_timeout);
}

TEST_CASE("each option's environment variable is its name in capitals") {
  std::set<std::string> names;
  for (const auto& o : option_table()) {
    std::string variable = "PGWAKE_" + std::string(o.name);
    std::transform(variable.begin(), variable.end(), variable.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
    // The hub's own name is not for its workers' connections.
    if (variable == "PGWAKE_APPLICATION_NAME") variable = "PGWAKE_FALLBACK_APPLICATION_NAME";
    CHECK(variable == o.environment);
    CHECK(names.insert(o.name).second);
    CHECK_FALSE(std::string(o.about).empty());
  }
}

TEST_CASE("C3: the environment wins over the program, but for what the program is about") {
  const auto outside =
      env({{"PGWAKE_POLICY", "direct"}, {"PGWAKE_SOCKET", "/outside"}, {"PGWAKE_POLL_INTERVAL", ""}});
  const auto s = resolved({{"policy", "poll"}, {"socket", "/program"}, {"poll_interval", "3s"}}, outside);
  CHECK(s.failover.policy == policy::direct);
  CHECK(s.socket == "/program");
  CHECK(s.failover.poll_interval == millis{3'000});  // an empty variable is none
  CHECK(resolved({}, outside).socket == "/outside");
}

TEST_CASE("a setting that makes no sense is named, with the accepted form and where it came from") {
  // Where from is in the name: the program's are those of options, the environment's those of variables.
  CHECK(fault_of({{"policy", "sometimes"}}) == "policy=sometimes: write listener, poll, none or direct");
  CHECK(fault_of({}, env({{"PGWAKE_POLICY", "frob"}})) ==
        "PGWAKE_POLICY=frob: write listener, poll, none or direct");
  CHECK_THAT(fault_of({}, env({{"PGWAKE_POLL_INTERVAL", "5"}})),
             Catch::StartsWith("PGWAKE_POLL_INTERVAL=5: ") && Catch::Contains("unit"));
  CHECK(resolved({}, env({{"PGWAKE_DATABASE", "x"}})).database_called == "PGWAKE_DATABASE");
  CHECK(resolved({{"database", "y"}}, env({{"PGWAKE_DATABASE", "x"}})).database_called == "database");
  CHECK_THAT(fault_of({{"queue_max_bytes", "1"}}), Catch::Contains("least"));
  CHECK_THAT(fault_of({{"socket", std::string(108, 'x')}}), Catch::Contains("107"));
  CHECK_THAT(fault_of({{"fallback_dir", "here"}}), Catch::Contains("absolute"));
  CHECK_THAT(fault_of({{"fallback_limit", "-1"}}), Catch::Contains("negative"));
  CHECK_FALSE(resolved({{"fallback_limit", "auto"}}).fallback_limit);
  CHECK(resolved({{"fallback_limit", "0"}}).fallback_limit == 0U);
  CHECK(resolved({}).failover.limited);
  CHECK_FALSE(resolved({{"fallback_limit", "0"}}).failover.limited);
  CHECK_FALSE(
      resolved({{"policy", "direct"}}).failover.limited);  // a rollback must not leave workers without
  CHECK(resolved({{"policy", "direct"}, {"fallback_limit", "3"}}).failover.limited);
  CHECK_THAT(fault_of({{"reattach", "yes"}}), Catch::Contains("auto or never"));
  CHECK(resolved({{"socket", std::string(107, 'x')}}).socket.size() == 107);
}

TEST_CASE("what hub and client share may be written for the client as for the hub") {
  for (const char* on : {"on", "true", "yes", "1"})
    CHECK(resolved({}, env({{"PGWAKE_ALLOW_SESSION_POOLER", on}})).upstream.allow_session_pooler);
  for (const char* off : {"off", "false", "no", "0"})
    CHECK_FALSE(resolved({}, env({{"PGWAKE_ALLOW_SESSION_POOLER", off}})).upstream.allow_session_pooler);
  CHECK(resolved({}, env({{"PGWAKE_APPLICATION_NAME", "shared"}})).application_name.empty());
  CHECK(resolved({}, env({{"PGWAKE_FALLBACK_APPLICATION_NAME", "mine"}})).application_name == "mine");
  CHECK(resolved({{"application_name", std::string(63, 'x')}}).application_name.size() == 63);
  for (const auto& bad : {std::string(64, 'x'), std::string("\xC3\xA4"), std::string("a\nb")})
    CHECK_THAT(fault_of({{"application_name", bad}}), Catch::Contains("63 printable ASCII"));
}

TEST_CASE("every option is documented in docs/client.md as its table says, and nothing else is") {
  std::ifstream in(PGWAKE_SOURCE_DIR "/docs/client.md");
  REQUIRE(in);
  std::set<std::string> documented;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("| `", 0) != 0 || line.find("| `PGWAKE_") == std::string::npos) continue;
    documented.insert(line);
  }
  std::set<std::string> expected;
  for (const auto& o : option_table()) {
    const std::string value = *o.default_value == '\0' ? "" : "`" + std::string(o.default_value) + "` ";
    expected.insert("| `" + std::string(o.name) + "` | `" + o.environment + "` | " + value + "| " + o.about +
                    " | " + (o.program_wins ? "program" : "environment") + " |");
  }
  for (const auto& line : expected) CHECK(documented.contains(line));
  for (const auto& line : documented) CHECK(expected.contains(line));
  if (documented != expected) {
    std::ostringstream table;
    for (const auto& line : expected) table << line << "\n";
    WARN("the table should be:\n" << table.str());
  }
}
