#include "daemon/settings/command_line.hpp"

#include <CLI/CLI.hpp>
#include <catch2/catch.hpp>
#include <sstream>

#include "daemon/settings/options.hpp"

using namespace pgwaked;
using Catch::Contains;

TEST_CASE("options: a command may take some of them, with the same precedence") {
  constexpr std::string_view names[] = {"socket", "database", "config"};
  CLI::App app("", "pgwaked status");
  command_values given;
  add_options(app, given, names);
  REQUIRE(parse_command(app, {"--database", "a"}).go_on);
  surroundings world;
  world.environment = {{"PGWAKE_CONFIG", "/etc/x.toml"}, {"PGWAKE_UNHEARD_OF", "x"}};
  world.read_file = [](const std::string&) -> boost::system::result<std::string, value_error> {
    return {boost::system::in_place_value, "socket = '/s'\nheartbeat = 'nonsense'\n"};
  };
  const auto result = load(given, world, {names, false});
  REQUIRE(result.has_value());
  CHECK(result->values.database == "a");
  CHECK(result->values.socket == "/s");
  CHECK(load(given, world, {names, true}).has_error());
}

TEST_CASE("command line: help shows every option with its default, and wrong usage is exit code 2") {
  CLI::App app("text", "pgwaked");
  app.set_version_flag("--version", "pgwaked 0.1.0");
  app.require_subcommand(1);
  command_values given;
  CLI::App* run = app.add_subcommand("run", "the daemon");
  add_options(*run, given);

  const command_outcome help = parse_command(app, {"run", "--help"});
  CHECK(!help.go_on);
  CHECK(help.exit_code == 0);
  std::istringstream lines(help.out);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 115);
  for (const option& each : option_table()) {
    CHECK_THAT(help.out, Contains("  " + flag_of(each.name) + " "));
    if (!each.initial.empty()) CHECK_THAT(help.out, Contains("[" + std::string(each.initial) + "]"));
  }
  CHECK(parse_command(app, {"--version"}).out == "pgwaked 0.1.0\n");

  const command_outcome unknown = parse_command(app, {"rum"});
  CHECK(unknown.exit_code == usage_error::exit_code);
  CHECK(unknown.err == "pgwaked: unknown command \"rum\"; did you mean run? (try pgwaked --help)\n");
  CHECK(parse_command(app, {}).exit_code == usage_error::exit_code);
}

TEST_CASE("command line: an option of a command that stands before it is told its place") {
  CLI::App app("text", "pgwaked");
  app.require_subcommand(1);
  bool json = false;
  command_values given;
  auto* status = app.add_subcommand("status", "");
  status->add_flag("--json", json);
  add_options(*status, given);
  CHECK(
      parse_command(app, {"--json", "status"}).err ==
      "pgwaked status: options come after the command: pgwaked status --json (try pgwaked status --help)\n");
  for (const std::vector<std::string>& spelling :
       {std::vector<std::string>{"--socket", "/s", "status"}, {"--socket=/s", "status"}}) {
    const auto outcome = parse_command(app, spelling);
    CHECK(outcome.exit_code == usage_error::exit_code);
    CHECK_THAT(outcome.err, Contains("options come after the command: pgwaked status --socket ("));
  }
  CHECK_THAT(parse_command(app, {"--jsno", "status"}).err, Contains("did you mean --json?"));
}

TEST_CASE("command line: values reach us as they are written") {
  CLI::App app("", "pgwaked run");
  command_values given;
  add_options(app, given);
  REQUIRE(parse_command(app, {"--socket=[a,b]", "--queue-template", "{}", "--database=host=h user=u",
                              "--allow", "* a b,c", "--allow", "uid:1", "--application-name=",
                              "--log-level=info", "--log-level=debug", "--allow-session-pooler"})
              .go_on);
  CHECK(given == command_values{{"socket", {"[a,b]"}},
                                {"queue_template", {"{}"}},
                                {"database", {"host=h user=u"}},
                                {"allow", {"* a b,c", "uid:1"}},
                                {"application_name", {""}},
                                {"log_level", {"debug"}},
                                {"allow_session_pooler", {"true"}}});
}

TEST_CASE("command line: after `--` an argument may begin with a dash") {
  struct spelling {
    std::vector<std::string> arguments;
    std::vector<std::string> channels;
  };
  const std::vector<spelling> spellings = {
      {{"listen", "--", "-x"}, {"-x"}},
      {{"listen", "a", "--", "-x"}, {"a", "-x"}},
      {{"listen", "a", "--", "--json", "b", "--", "++"}, {"a", "--json", "b", "--", "++"}},
      {{"listen", "--socket", "/s", "a", "--", "listen", "--name="}, {"a", "listen", "--name="}},
      {{"listen", "a", "--"}, {"a"}},
      {{"listen", "listen"}, {"listen"}},
  };
  for (const auto& each : spellings) {
    CLI::App app("text", "pgwaked");
    app.require_subcommand(1);
    std::vector<std::string> channels;
    bool json = false;
    auto* listen = app.add_subcommand("listen", "");
    command_values given;
    constexpr std::string_view names[] = {"socket"};
    add_options(*listen, given, names);
    listen->add_option("CHANNEL", channels)->required();
    listen->add_flag("--json", json);
    const auto outcome = parse_command(app, each.arguments);
    CHECK(outcome.err.empty());
    CHECK(outcome.go_on);
    CHECK(channels == each.channels);
    CHECK_FALSE(json);
  }
  CLI::App app("", "pgwaked run");
  command_values given;
  add_options(app, given);
  CHECK(parse_command(app, {"--", "--socket"}).err ==
        "pgwaked run: unexpected argument \"--socket\" (try pgwaked run --help)\n");
}
