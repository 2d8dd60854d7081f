#include "daemon/settings/options.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>

using namespace pgwaked;
using namespace std::chrono_literals;
using Catch::Contains;
using args = std::vector<std::string>;

namespace {

// A world with one settings file, two users and a group.
struct fake_world {
  std::map<std::string, std::string> files;
  std::map<std::string, unsigned> modes;
  std::vector<std::pair<std::string, std::string>> environment;

  surroundings get() const {
    surroundings out;
    out.environment = environment;
    out.read_file = [this](const std::string& path) -> boost::system::result<std::string, value_error> {
      const auto found = files.find(path);
      if (found == files.end()) return value_error{"No such file or directory"};
      return {boost::system::in_place_value, found->second};
    };
    out.mode_of = [this](const std::string& path) -> std::optional<unsigned> {
      const auto found = modes.find(path);
      return found == modes.end() ? std::optional<unsigned>() : found->second;
    };
    out.names.user_id = [](const std::string& name) -> std::optional<std::uint32_t> {
      if (name == "root") return 0;
      if (name == "www-data") return 33;
      return std::nullopt;
    };
    out.names.group_id = [](const std::string& name) -> std::optional<std::uint32_t> {
      if (name == "web") return 1'000;
      return std::nullopt;
    };
    return out;
  }
};

loaded loads(const args& given, const fake_world& world = {}) {
  auto result = load(given, world.get());
  INFO((result.has_value() ? std::string() : result.error().message));
  REQUIRE(result.has_value());
  return *std::move(result);
}

std::string fails(const args& given, const fake_world& world = {}) {
  const auto result = load(given, world.get());
  REQUIRE(result.has_error());
  return result.error().message;
}

fake_world with_file(std::string content) {
  fake_world world;
  world.files["/etc/pgwake/shop.toml"] = std::move(content);
  world.environment = {{"PGWAKE_CONFIG", "/etc/pgwake/shop.toml"}, {"PATH", "/bin"}, {"PGHOST", "h"}};
  return world;
}

std::string printed(const loaded& what) {
  std::ostringstream out;
  print_config(out, what);
  return out.str();
}

}  // namespace

TEST_CASE("options: the settings of a systemd instance imply its socket") {
  CHECK(instance_of("/etc/pgwake/shop.toml") == "shop");
  CHECK(instance_of_socket("/run/pgwake/shop/pgwake.sock") == "shop");
  for (const char* other :
       {"", "/run/pgwake//pgwake.sock", "/run/pgwake/pgwake.sock", "/run/pgwake/a/b/pgwake.sock"})
    CHECK_FALSE(instance_of_socket(other));
  for (const char* other :
       {"", "/etc/pgwake/.toml", "/etc/pgwake/shop", "/etc/pgwake/a/b.toml", "/etc/shop.toml", "shop.toml"})
    CHECK_FALSE(instance_of(other));
  const auto implied = loads({}, with_file("heartbeat = '2s'\n"));
  CHECK(implied.values.socket == "/run/pgwake/shop/pgwake.sock");
  CHECK(implied.origin_of("socket").text == "default of /etc/pgwake/shop.toml");
  CHECK(loads({}, with_file("socket = '/s'\n")).values.socket == "/s");
  CHECK(loads({"--socket", "/s"}, with_file("")).values.socket == "/s");
  auto world = with_file("");
  world.environment.emplace_back("PGWAKE_SOCKET", "/s");
  CHECK(loads({}, world).values.socket == "/s");
}

TEST_CASE("P1: an instance of systemd has the front door in its folder, unless a setting says otherwise") {
  const auto implied = loads({}, with_file("heartbeat = '2s'\n"));
  CHECK(implied.values.front_door);
  CHECK(implied.origin_of("front_door").text == "default of /etc/pgwake/shop.toml");
  CHECK_THAT(printed(implied), Contains("front_door = true  # default of /etc/pgwake/shop.toml\n"));
  CHECK(loads({"--socket", "/run/pgwake/shop/pgwake.sock"}, with_file("")).values.front_door);
  CHECK_FALSE(loads({}, with_file("front_door = false\n")).values.front_door);
  CHECK_FALSE(loads({"--front-door=false"}, with_file("")).values.front_door);
  auto world = with_file("");
  world.environment.emplace_back("PGWAKE_FRONT_DOOR", "false");
  CHECK_FALSE(loads({}, world).values.front_door);
  // Two hubs may share another folder, where there is room for one front door alone.
  CHECK_FALSE(loads({}, with_file("socket = '/run/app/a.sock'\n")).values.front_door);
  CHECK_FALSE(loads({"--socket", "/run/pgwake/shop/pgwake.sock"}, fake_world()).values.front_door);
}

TEST_CASE("options: without anything given every setting is its default") {
  const loaded all = loads({});
  CHECK(all.values == settings{});
  CHECK(all.warnings.empty());
  REQUIRE(all.origins.size() == option_table().size());
  for (const origin& each : all.origins) {
    CHECK(each.from == source::builtin);
    CHECK(each.text == "default");
  }
}

TEST_CASE("options: each is reachable from command line, environment and file, by one name") {
  struct row {
    const char* name;
    const char* text;
  };
  const row each = GENERATE(
      row{"database", "dbname=shop"}, row{"database_file", "/run/credentials/db"}, row{"socket", "/tmp/s"},
      row{"application_name", "x"}, row{"socket_mode", "0600"}, row{"socket_group", "web"},
      row{"allow", "uid:33 a"}, row{"queue_template", "{}"}, row{"heartbeat", "1s"},
      row{"probe_interval", "1s"}, row{"probe_timeout", "1s"}, row{"connect_timeout", "3s"},
      row{"unlisten_linger", "1s"}, row{"drain_grace", "1s"}, row{"outbox_max_bytes", "1MiB"},
      row{"outbox_max_frames", "7"}, row{"outbox_total_max_bytes", "1GiB"}, row{"max_workers", "7"},
      row{"max_channels", "7"}, row{"max_workers_per_user", "7"}, row{"max_channels_per_user", "7"},
      row{"frame_deadline", "1s"}, row{"allow_session_pooler", "true"}, row{"log_level", "debug"},
      row{"log_format", "json"}, row{"metrics_listen", "[::1]:9187"});
  CAPTURE(each.name);
  const option& which = *find_option(each.name);

  const loaded line = loads({flag_of(each.name) + "=" + each.text});
  CHECK(line.origin_of(each.name).text == "command line");
  CHECK(!(line.values == settings{}));

  fake_world variable;
  variable.environment = {{environment_of(each.name), each.text}};
  const loaded environment = loads({}, variable);
  CHECK(environment.origin_of(each.name).text == "environment " + environment_of(each.name));
  CHECK(show(which, environment.values) == show(which, line.values));

  const loaded file =
      loads({}, with_file("\n" + std::string(each.name) + " = " + show(which, line.values) + "\n"));
  CHECK(file.origin_of(each.name).text == "file /etc/pgwake/shop.toml line 2");
  CHECK(show(which, file.values) == show(which, line.values));
  // It, `config`, and what the file's name implies: the socket, and the front door beside it.
  CHECK(differences(settings{}, file.values).size() == (which.name == "socket"       ? 2
                                                        : which.name == "front_door" ? 3
                                                                                     : 4));
}

TEST_CASE("options: command line over environment over file over default") {
  fake_world world = with_file(
      "heartbeat = '1s'\nprobe_interval = '1s'\nprobe_timeout = '1s'\nallow = ['uid:1', 'uid:2']\n");
  world.environment.emplace_back("PGWAKE_HEARTBEAT", "2s");
  world.environment.emplace_back("PGWAKE_PROBE_INTERVAL", "2s");
  world.environment.emplace_back("PGWAKE_ALLOW", "uid:3 ; gid:4 a,b;");
  const loaded all = loads({"--heartbeat", "3s", "--drain-grace=3s"}, world);
  CHECK(all.values.heartbeat == 3s);
  CHECK(all.values.probe_interval == 2s);
  CHECK(all.values.probe_timeout == 1s);
  CHECK(all.values.drain_grace == 3s);
  CHECK(all.values.connect_timeout == 5s);
  CHECK(all.origin_of("heartbeat").from == source::command_line);
  CHECK(all.origin_of("probe_interval").text == "environment PGWAKE_PROBE_INTERVAL");
  CHECK(all.origin_of("probe_timeout").text == "file /etc/pgwake/shop.toml line 3");
  CHECK(all.is_default("connect_timeout"));
  REQUIRE(all.values.allow.size() == 2);  // a level replaces the list of a lower one, and adds nothing to it
  CHECK(all.values.allow[1].id == 4);
  CHECK(all.values.config == "/etc/pgwake/shop.toml");
  CHECK(loads({"--config", ""}, world).values.probe_timeout == 5s);
}

TEST_CASE("options: an empty variable counts as not set") {
  fake_world world;
  world.environment = {{"PGWAKE_HEARTBEAT", ""}, {"PGWAKE_CONFIG", ""}, {"PGWAKE_DATABASE", ""}};
  CHECK(loads({}, world).values == settings{});
}

TEST_CASE("options: a value that makes no sense is named, with the accepted form and where it came from") {
  struct row {
    const char* flag;
    const char* value;
    std::vector<const char*> says;
  };
  const row each = GENERATE(
      row{"heartbeat", "5", {"\"5\"", "a unit is missing", "15s"}},
      row{"heartbeat", "99ms", {"out of bounds", "100ms to 1m", "three heartbeats"}},
      row{"heartbeat", "2m", {"100ms to 1m"}}, row{"connect_timeout", "1s", {"2s to 10m", "libpq"}},
      row{"connect_timeout", "2500ms", {"whole number of seconds"}},
      row{"outbox_max_bytes", "16MB", {"for MB write MiB"}}, row{"outbox_max_bytes", "0", {"64KiB to 64GiB"}},
      row{"outbox_max_bytes", "99999999999999999999", {"too large"}}, row{"max_workers", "-1", {"negative"}},
      row{"max_workers", "0", {"1 to 1000000"}}, row{"max_workers", "many", {"whole number"}},
      row{"socket_mode", "0888", {"octal", "0660"}}, row{"socket_mode", "01000", {"0777"}},
      row{"socket_mode", "rw", {"octal"}}, row{"socket_mode", "-1", {"octal"}},
      row{"socket_mode", "", {"octal"}}, row{"socket_group", "nobody-here", {"no group \"nobody-here\""}},
      row{"socket_group", "4294967295", {"no group \"4294967295\""}}, row{"socket", "", {"empty"}},
      row{"queue_template", "pgmq", {"exactly one {}"}}, row{"queue_template", "{}{}", {"exactly one {}"}},
      row{"application_name", "a\nb", {"a\\nb", "printable ASCII"}},
      row{"log_level", "loud", {"trace, debug, info, warning or error"}},
      row{"log_format", "xml", {"text or json"}}, row{"allow_session_pooler", "maybe", {"true or false"}},
      row{"metrics_listen", "9187", {"127.0.0.1:PORT"}},
      row{"metrics_listen", "0.0.0.0:9187", {"no authentication", "metrics_token_file"}},
      row{"metrics_listen", "db1:9187", {"a number"}}, row{"metrics_listen", "localhost:0", {"1 to 65535"}},
      row{"metrics_listen", "localhost:65536", {"1 to 65535"}}, row{"metrics_listen", "unix:", {"107"}},
      row{"allow", "bob", {"\"bob\"", "uid:33"}}, row{"allow", "user:bob", {"no such user"}},
      row{"allow", "group:bob", {"no such group"}}, row{"allow", "uid:-1", {"no number"}},
      row{"allow", "uid:4294967295", {"no number"}}, row{"allow", "gid:", {"uid:33"}},
      row{"allow", "", {"uid:33"}}, row{"allow", "* a,,b", {"empty channel pattern"}},
      row{"allow", "* a,", {"empty channel pattern"}});
  CAPTURE(each.flag, each.value);
  const std::string message = fails({flag_of(each.flag) + "=" + each.value});
  CHECK_THAT(message, Catch::StartsWith(std::string(each.flag) + ": "));
  for (const char* said : each.says) CHECK_THAT(message, Contains(said));
  CHECK_THAT(message, Catch::EndsWith("(from command line)"));
  CHECK(message.find('\n') == message.npos);
}

TEST_CASE("options: everything that is wrong is said at once, wrong values of lower levels too") {
  fake_world world =
      with_file("heartbeat = 5\nmax_worker = 3\nsocket_mode = 660\nlog_level = true\nallow = 'uid:x'\n");
  world.environment.emplace_back("PGWAKE_PROBE_TIMEOUT", "soon");
  const std::string message = fails({"--heartbeat=1s", "--max-channels=x"}, world);
  CHECK_THAT(message, Contains("heartbeat: \"5\" is no duration: a unit is missing") &&
                          Contains("(from file /etc/pgwake/shop.toml line 1)"));
  CHECK_THAT(message,
             Contains("/etc/pgwake/shop.toml line 2: unknown setting max_worker; did you mean max_workers?"));
  CHECK_THAT(message, Contains("socket_mode: a mode is octal and therefore quoted; write \"0660\""));
  CHECK_THAT(message, Contains("log_level: true or false makes no sense here"));
  CHECK_THAT(message, Contains("uid:x"));
  CHECK_THAT(message,
             Contains("probe_timeout: \"soon\"") && Contains("(from environment PGWAKE_PROBE_TIMEOUT)"));
  CHECK_THAT(message, Contains("max_channels: \"x\""));
  CHECK(std::count(message.begin(), message.end(), '\n') == 6);
}

TEST_CASE("options: lines of the file that cannot be read are all told, beside what else is wrong") {
  const std::string message = fails({}, with_file("heartbeat=2s\nprobe_interval=3s\nfoo=1\nbar=x\n"));
  CHECK_THAT(message,
             Contains("line 1: heartbeat takes a duration, 100ms to 1m, written as in heartbeat = \"5s\"") &&
                 Contains("line 2: probe_interval takes") && Contains("line 3: unknown setting foo") &&
                 Contains("line 4: unknown setting bar"));
  CHECK(std::count(message.begin(), message.end(), '\n') == 3);
}

TEST_CASE("options: what is advised about a value without quotes works") {
  for (const option& each : option_table()) {
    if (each.name == "config") continue;
    const std::string name(each.name);
    for (const char* word : {"1.5", "0x10", "on", "tru"}) {
      CAPTURE(name, word);
      const std::string message = fails({}, with_file(name + " = " + word + "\n"));
      const std::string mark = "written as in ";
      if (message.find(mark) == message.npos) {
        CHECK((each.kind == option_kind::text || each.kind == option_kind::path));
        CHECK_THAT(message, Contains("write " + name + " = \"...\""));
        continue;
      }
      auto advised = message.substr(message.find(mark) + mark.size());
      CHECK(loads({}, with_file(advised + "\n")).origin_of(name).from == source::file);
    }
  }
  CHECK_THAT(fails({}, with_file("max_workers = on\n")), !Contains("quoted"));
  CHECK(loads({}, with_file("allow_session_pooler = 1\n")).values.allow_session_pooler);
  CHECK_FALSE(loads({}, with_file("allow_session_pooler = 0\n")).values.allow_session_pooler);
  CHECK_THAT(fails({}, with_file("allow_session_pooler = 2\n")), Contains("write true or false"));
  CHECK_THAT(fails({}, with_file("log_level = 3\n")), Contains("written as in log_level = \"info\""));
}

TEST_CASE("options: an unknown variable, option, command or argument names the nearest") {
  fake_world world;
  world.environment = {{"PGWAKE_HARTBEAT", "1s"}, {"PGWAKEFUL", "x"}};
  CHECK(fails({}, world) == "unknown environment variable PGWAKE_HARTBEAT; did you mean PGWAKE_HEARTBEAT?");
  CHECK_THAT(fails({"--hartbeat=1s"}), Contains("unknown option \"--hartbeat\"; did you mean --heartbeat?"));
  CHECK_THAT(fails({"shop"}), Contains("unexpected argument \"shop\""));
  CHECK_THAT(fails({"--heartbeat"}), Contains("--heartbeat") && Contains("DURATION"));
  // What may be a password is not repeated.
  CHECK_THAT(fails({"--databse=postgresql://u:pw@h/d"}), !Contains("pw"));
  CHECK_THAT(fails({"postgresql://u:pw@h/d"}), !Contains("pw") && Contains("u:***@h"));
}

TEST_CASE("options: variables of the client library and of tests are known") {
  fake_world world;
  for (const std::string_view each : foreign_environment()) world.environment.emplace_back(each, "x");
  world.environment.emplace_back("PGWAKE_TEST_ANYTHING", "x");
  CHECK(loads({}, world).values == settings{});
  CHECK(known_environment("PGWAKE_POLICY"));
  CHECK(known_environment("PGWAKE_SOCKET"));
  CHECK(!known_environment("PGWAKE_POLICE"));
}

TEST_CASE("options: a settings file that is missing, broken or names itself is an error") {
  CHECK(fails({"--config=/no/such"}) ==
        "config: cannot read /no/such: No such file or directory (from command line)");
  CHECK_THAT(fails({}, with_file("heartbeat = '1s'\nheartbeat = '2s'\n")),
             Contains("/etc/pgwake/shop.toml line 2: heartbeat is set twice"));
  CHECK_THAT(fails({}, with_file("config = '/x'\n")),
             Contains("line 1: config can be set on the command line"));
}

TEST_CASE("options: numbers of a file may be plain where they are plain") {
  const loaded all =
      loads({}, with_file("max_workers = 1_000\noutbox_max_bytes = 1048576\nallow_session_pooler = true\n"
                          "allow = 'uid:7'\nmax_channels = '8'\n"));
  CHECK(all.values.max_workers == 1'000);
  CHECK(all.values.outbox_max_bytes == 1'048'576);
  CHECK(all.values.allow_session_pooler);
  CHECK(all.values.allow.size() == 1);
  CHECK(all.values.max_channels == 8);
  CHECK_THAT(fails({}, with_file("max_workers = -1\n")), Contains("negative"));
  CHECK_THAT(fails({}, with_file("socket = ['/a']\n")), Contains("a list makes no sense"));
}

TEST_CASE("K3: a socket path of 107 bytes is taken, of 108 refused") {
  CHECK(loads({"--socket", std::string(107, 'a')}).values.socket.size() == 107);
  CHECK_THAT(fails({"--socket", std::string(108, 'a')}), Contains("108 bytes") && Contains("at most 107"));
}

TEST_CASE("options: two connection strings of one level contradict, else the higher wins") {
  CHECK_THAT(fails({"--database=a", "--database-file=/b"}),
             Contains("database and database_file are both set") && Contains("command line"));
  CHECK_THAT(fails({}, with_file("database = 'a'\ndatabase_file = '/b'\n")),
             Contains("line 1") && Contains("line 2"));
  fake_world world = with_file("database_file = '/b'\n");
  const loaded line = loads({"--database=a"}, world);
  CHECK(line.values.database == "a");
  CHECK(line.values.database_file.empty());
  world.environment.emplace_back("PGWAKE_DATABASE", "a");
  CHECK(loads({"--database-file=/c"}, world).values.database.empty());
  CHECK(loads({"--database-file=/c"}, world).values.database_file == "/c");
  // A lower level's contradiction is settled by what is above it.
  CHECK(loads({"--database="}, with_file("database_file = '/b'\n")).values.database_file == "/b");
}

TEST_CASE("options: a password on the command line works and is warned about, elsewhere it is not") {
  const loaded line = loads({"--database=postgresql://u:hush@h/d"});
  REQUIRE(line.warnings.size() == 1);
  CHECK_THAT(line.warnings[0], Contains("process list; use") && !Contains("hush"));
  CHECK(line.values.database == "postgresql://u:hush@h/d");
  CHECK(loads({"--database=postgresql://u@h/d"}).warnings.empty());
  CHECK(loads({}, with_file("database = 'password=hush'\n")).warnings.empty());
}

TEST_CASE("options: a worker's limit above that of all workers is warned about") {
  REQUIRE(loads({"--outbox-total-max-bytes=1MiB"}).warnings.size() == 1);
  CHECK_THAT(loads({"--outbox-total-max-bytes=1MiB"}).warnings[0], Contains("; lower the one"));
  CHECK_THAT(loads({"--outbox-total-max-bytes=1MiB"}).warnings[0],
             Contains("outbox_max_bytes (16MiB) is above outbox_total_max_bytes (1MiB)"));
}

TEST_CASE("options: the file with the connection string is read anew each time") {
  fake_world world;
  world.files["/cred"] = "\n postgresql://u:one@h/d \r\n";
  const settings values = loads({"--database-file=/cred"}, world).values;
  CHECK(*read_database(values, world.get()) == "postgresql://u:one@h/d");
  world.files["/cred"] = "postgresql://u:two@h/d";
  CHECK(*read_database(values, world.get()) == "postgresql://u:two@h/d");
  for (const std::string& broken : {std::string(" \n"), std::string("a\0b", 3)}) {
    world.files["/cred"] = broken;
    CHECK(read_database(values, world.get()).has_error());
  }
  world.files.clear();
  CHECK_THAT(read_database(values, world.get()).error().message,
             Contains("\"/cred\" cannot be read: No such file or directory"));
  CHECK(*read_database(settings{}, world.get()) == "");
  // systemd makes an empty one where there is none.
  const std::string credential = "/run/credentials/pgwaked@shop.service/database";
  world.files[credential] = "\n";
  CHECK_THAT(read_database(loads({"--database-file", credential}, world).values, world.get()).error().message,
             Contains("a copy of /etc/pgwake/shop.database, made when the service started"));
}

TEST_CASE("options: metrics for other hosts take a token, which a file holds and no output shows") {
  fake_world world;
  world.files["/token"] =
      "\xEF\xBB\xBF"
      "0123456789abcdef\r\n";
  const loaded open = loads({"--metrics-listen=0.0.0.0:9187", "--metrics-token-file=/token"}, world);
  CHECK(open.metrics_token == "0123456789abcdef");
  CHECK_THAT(printed(open), !Contains("0123456789abcdef"));
  // On the loopback it is a choice; where no metrics are served nobody reads it.
  CHECK(loads({"--metrics-listen=127.0.0.1:9187", "--metrics-token-file=/token"}, world).metrics_token ==
        "0123456789abcdef");
  CHECK(loads({"--metrics-listen=[::1]:9187"}, world).metrics_token.empty());
  CHECK(loads({"--metrics-token-file=/nothing"}, world).metrics_token.empty());
  const auto refused = [&](const char* content) {
    world.files["/token"] = content;
    return load(command_values{{"metrics_listen", {"[::]:1"}}, {"metrics_token_file", {"/token"}}},
                world.get())
        .error()
        .message;
  };
  CHECK_THAT(refused(""), Contains("metrics_token_file") && Contains("empty") && Contains("openssl rand"));
  CHECK_THAT(refused("short"), Contains("16 letters") && !Contains("short\""));
  CHECK_THAT(refused("0123456789 abcdef"), Contains("letters, digits"));
  world.files.clear();
  CHECK_THAT(refused(""), Contains("empty"));
  world.files.clear();
  CHECK_THAT(
      load(command_values{{"metrics_listen", {"[::]:1"}}, {"metrics_token_file", {"/token"}}}, world.get())
          .error()
          .message,
      Contains("cannot read /token: No such file or directory (from command line)"));
}

TEST_CASE("options: what config prints is a settings file with the same settings") {
  fake_world world = with_file("allow = ['uid:33 \"x\",*', '*']\nmax_workers = 3\n");
  const loaded first =
      loads({"--socket=/tmp/a # b", "--socket-mode=600", "--socket-group=web", "--heartbeat=1500ms",
             "--metrics-listen=localhost:1", "--log-level=error", "--database=dbname='a \"b'"},
            world);
  const std::string text = printed(first);
  CHECK_THAT(text, Contains("max_workers = 3  # file /etc/pgwake/shop.toml line 2\n"));
  CHECK_THAT(text, Contains("heartbeat = \"1500ms\"  # command line\n"));
  CHECK_THAT(text, Contains("max_channels = 50000  # default\n"));
  CHECK_THAT(text, Contains("# config = \"/etc/pgwake/shop.toml\"  # environment PGWAKE_CONFIG\n"));
  const loaded second = loads({}, with_file(text));
  CHECK(second.values == first.values);
}

TEST_CASE("case 38: no password in what config and a reload say") {
  fake_world world;
  world.files["/cred"] = "password=hush";
  CHECK_THAT(printed(loads({"--database=postgresql://u:hush@h/d?sslpassword=hush"})), !Contains("hush"));
  CHECK_THAT(printed(loads({"--database=user=u password='hush hush'"})), !Contains("hush"));
  CHECK_THAT(printed(loads({"--database-file=/cred"}, world)), !Contains("hush") && Contains("\"/cred\""));
  settings before;
  settings after;
  before.database = "password=hush1";
  after.database = "password=hush2";
  const auto changed = differences(before, after);
  REQUIRE(changed.size() == 1);
  CHECK(changed[0].before == "\"password=***\"");
  CHECK(changed[0].after == "\"password=***\"");
}

TEST_CASE("case 30: a reload names what changed, and what it cannot change") {
  fake_world world = with_file("heartbeat = '1s'\n");
  const command_values given{{"max_workers", {"5"}}};
  const auto before = load(given, world.get());
  world.files["/etc/pgwake/shop.toml"] = "heartbeat = '2s'\nlog_level = 'debug'\nmax_workers = 9\n";
  const auto after = load(given, world.get());
  REQUIRE(before.has_value());
  REQUIRE(after.has_value());
  CHECK(differences(before->values, before->values).empty());
  const auto changed = differences(before->values, after->values);
  REQUIRE(changed.size() == 2);  // the command line still wins for max_workers
  CHECK(changed[0].name == "heartbeat");
  CHECK(!changed[0].reloadable);
  CHECK(changed[0].before == "\"1s\"");
  CHECK(changed[0].after == "\"2s\"");
  CHECK(changed[1].name == "log_level");
  CHECK(changed[1].reloadable);

  const settings kept = reloaded(before->values, after->values);
  CHECK(kept.log_level == log_level::debug);
  CHECK(kept.heartbeat == 1s);
  const auto left = differences(kept, after->values);
  REQUIRE(left.size() == 1);
  CHECK(left[0].name == "heartbeat");
}

TEST_CASE("options: the variable by which bindings find the client library is none of the hub's business") {
  fake_world world;
  world.environment = {{"PGWAKE_LIBRARY", "/usr/lib/libpgwake.so.1"},
                       {"LIBPGWAKE", "/usr/lib/libpgwake.so.1"}};
  const auto taken = loads({}, world);
  CHECK(taken.values == settings{});
  CHECK(taken.warnings.empty());
}

TEST_CASE("options: variables that Kubernetes makes for a Service are ignored by their shape, and said") {
  fake_world world;
  world.environment = {{"PGWAKE_SERVICE_HOST", "10.0.0.7"},
                       {"PGWAKE_SERVICE_PORT", "5432"},
                       {"PGWAKE_SERVICE_PORT_METRICS", "9187"},
                       {"PGWAKE_PORT", "tcp://10.0.0.7:5432"},
                       {"PGWAKE_PORT_5432_TCP", "tcp://10.0.0.7:5432"},
                       {"PGWAKE_PORT_5432_TCP_PROTO", "tcp"},
                       {"PGWAKE_PORT_5432_TCP_PORT", "5432"},
                       {"PGWAKE_PORT_5432_TCP_ADDR", "10.0.0.7"},
                       {"PGWAKE_HUB_PORT_53_UDP_ADDR", "10.0.0.8"},
                       {"PGWAKE_METRICS_PORT", "udp://10.0.0.8:53"}};
  const auto taken = loads({}, world);
  CHECK(taken.values == settings{});
  REQUIRE(taken.warnings.size() == 1);
  CHECK_THAT(taken.warnings[0], Contains("PGWAKE_SERVICE_HOST and 9 more ignored") && Contains("Kubernetes"));
  for (const auto& [name, value] : std::map<std::string, std::string>{{"PGWAKE_PORT", "5432"},
                                                                      {"PGWAKE_PORT_5432", "x"},
                                                                      {"PGWAKE_PORT_X_TCP", "x"},
                                                                      {"PGWAKE_PORT_5432_TCP_MODE", "x"}}) {
    CAPTURE(name);
    fake_world mistaken;
    mistaken.environment = {{name, value}};
    CHECK_THAT(fails({}, mistaken), Contains("unknown environment variable " + name));
  }
}

TEST_CASE("options: the variable that names the library for bindings stops nothing") {
  fake_world world;
  world.environment = {{"LIBPGWAKE", "/usr/lib/libpgwake.so.1"}};
  CHECK(loads({}, world).warnings.empty());
}

TEST_CASE("options: files and variables from Windows are read as they were meant") {
  fake_world world;
  world.environment = {{"PGWAKE_DATABASE_FILE", "\xEF\xBB\xBF/secret\r\n"},
                       {"PGWAKE_HEARTBEAT", "2s\r"},
                       {"PGWAKE_ALLOW", "uid:3 a ; gid:4\r\n"},
                       {"PGWAKE_SOCKET", "\r\n"}};
  for (const char* content :
       {"\xEF\xBB\xBFhost=h user=u\r\n", "host=h user=u", "\r\n host=h user=u \t\r\n\r\n"}) {
    world.files["/secret"] = content;
    const auto taken = loads({}, world);
    CHECK(taken.values.heartbeat == 2s);
    CHECK(taken.values.socket == settings{}.socket);
    REQUIRE(taken.values.allow.size() == 2);
    CHECK(taken.values.allow[1].text == "gid:4");
    CHECK(*read_database(taken.values, world.get()) == "host=h user=u");
  }
  world.environment = {{"PGWAKE_DATABASE", "\xEF\xBB\xBFhost=h user=u \r\n"}};
  CHECK(*read_database(loads({}, world).values, world.get()) == "host=h user=u");
  CHECK(*read_database(loads({"--database=\thost=h user=u\r"}).values, world.get()) == "host=h user=u");
  world.environment = {{"PGWAKE_DATABASE_FILE", "/secret"}};
  world.files["/secret"] = std::string("\xFF\xFEh\0o\0", 6);
  CHECK_THAT(read_database(loads({}, world).values, world.get()).error().message, Contains("UTF-16"));
}

TEST_CASE("options: a file that everybody may write is a warning, with a password in it an error") {
  auto world = with_file("heartbeat = '2s'\n");
  const std::string path = "/etc/pgwake/shop.toml";
  world.modes[path] = 0644;
  CHECK(loads({}, world).warnings.empty());
  world.modes[path] = 0646;
  REQUIRE(loads({}, world).warnings.size() == 1);
  CHECK_THAT(loads({}, world).warnings[0], Contains(path + " may be written by everybody"));
  world.files[path] = "database = 'host=h user=u'\n";
  CHECK(loads({}, world).warnings.size() == 1);
  world.files[path] = "database = 'host=h password=hush'\n";
  CHECK_THAT(fails({}, world), Contains("chmod o-w") && Contains("holds a password") && !Contains("hush"));
  // Another database overrules it; the file still says one.
  world.files[path] = "database_file = '/secret'\n";
  world.files["/secret"] = "host=h password=hush";
  world.modes = {{"/secret", 0666}};
  const auto secret = read_database(loads({}, world).values, world.get());
  REQUIRE(secret.has_error());
  CHECK_THAT(secret.error().message, Contains("may be written by everybody") && !Contains("hush"));
}

TEST_CASE("secrets: a connection string in the wrong place shows no password") {
  const std::string uri = "postgresql://u:hush@h/d";
  for (const option& each : option_table()) {
    fake_world world;
    world.environment = {{environment_of(each.name), uri}};
    const auto result = load(args{}, world.get());
    CAPTURE(each.name);
    if (result)
      CHECK_THAT(printed(*result), !Contains("hush"));
    else
      CHECK_THAT(result.error().message, !Contains("hush"));
  }
  for (const std::string& line :
       {"\"" + uri + "\" = 1\n", "\"" + uri + "\"\n", "database " + uri + "\n", uri + "\n"}) {
    CAPTURE(line);
    CHECK_THAT(fails({}, with_file(line)), !Contains("hush"));
  }
  CHECK_THAT(fails({"--" + uri}), !Contains("hush"));
  CHECK_THAT(fails({"--config=" + uri}), !Contains("hush"));
  const auto lost = loads({"--database-file=" + uri});
  CHECK_THAT(read_database(lost.values, fake_world{}.get()).error().message, !Contains("hush"));
}

TEST_CASE("options: errors of several settings are lines of their own") {
  const auto result = load(args{"--heartbeat=5", "--max-workers=x"}, fake_world{}.get());
  REQUIRE(result.has_error());
  const auto lines = result.error().lines();
  REQUIRE(lines.size() == 2);
  for (const auto& line : lines) CHECK_THAT(line, !Contains("\n"));
}
