#include "daemon/settings/options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ostream>

#include "common/clean_text.hpp"
#include "common/redact.hpp"
#include "common/unicode.hpp"
#include "daemon/settings/environment.hpp"
#include "daemon/settings/metrics_access.hpp"
#include "daemon/settings/nearest.hpp"
#include "daemon/settings/toml.hpp"
#include "daemon/settings/units.hpp"

namespace pgwaked {
namespace {

constexpr std::string_view prefix = "PGWAKE_";

std::string did_you_mean(std::string_view name, const std::vector<std::string>& known) {
  const std::string_view near = nearest(name, {known.begin(), known.end()});
  return near.empty() ? std::string() : "; did you mean " + std::string(near) + "?";
}

// What a setting other than a text takes, and how that is written in the file: with quotes or without.
std::string takes(const option& which) {
  std::string form = accepted_form(which);
  using kind = option_kind;
  if (which.kind == kind::duration || which.kind == kind::size || which.kind == kind::count ||
      which.kind == kind::list)
    form = "a " + form;
  if (which.kind == kind::mode) form = "an " + form;
  const std::string example =
      which.kind == option_kind::list ? "[\"uid:33\", \"user:www-data\"]" : show(which, settings{});
  return std::string(which.name) + " takes " + form + ", written as in " + std::string(which.name) + " = " +
         example;
}

bool is_text(const option& which) {
  return which.kind == option_kind::text || which.kind == option_kind::path;
}

// What a value from the file is as text, in which form assign() takes it; nullopt with `why` set.
std::optional<std::vector<std::string>> as_texts(const option& which, const toml::value_type& value,
                                                 std::string& why) {
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) {
    if (which.kind == option_kind::list) return *list;
    why = "a list makes no sense here; write one value";
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    return std::vector{*text};
  } else if (const auto* number = std::get_if<std::int64_t>(&value)) {
    switch (which.kind) {
      case option_kind::duration:
      case option_kind::size:
      case option_kind::count:
      case option_kind::boolean:  // 1 and 0
        return std::vector{std::to_string(*number)};
      case option_kind::mode:
        why = "a mode is octal and therefore quoted; write \"0660\"";
        break;
      default:
        why = "a number makes no sense here; " + (is_text(which) ? "write a quoted text" : takes(which));
    }
  } else {
    if (which.kind == option_kind::boolean)
      return std::vector<std::string>{std::get<bool>(value) ? "true" : "false"};
    why = "true or false makes no sense here; " + (is_text(which) ? "write a quoted text" : takes(which));
  }
  return std::nullopt;
}

// PGWAKE_ALLOW: rules with semicolons between them.
std::vector<std::string> split_rules(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(';'), text.size());
    const std::string_view rule = text.substr(0, end);
    if (rule.find_first_not_of(" \t") != rule.npos) out.emplace_back(rule);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

bool is_writable_for_all(const surroundings& world, const std::string& path) {
  return world.mode_of && (world.mode_of(path).value_or(0) & 0002U) != 0;
}

class loader {
 public:
  loader(const command_values& given, const surroundings& world, const load_scope& scope)
      : given_(given), world_(world), scope_(scope) {
    for (const option& each : option_table()) out_.origins.push_back({each.name, source::builtin, "default"});
  }

  boost::system::result<loaded, usage_error> run() {
    if (scope_.strict_environment) check_environment();
    if (in_scope("config")) take_file(config_path());
    for (const option& each : option_table()) {
      if (!in_scope(each.name)) continue;
      const std::string variable = environment_of(each.name);
      if (const std::string text = environment(variable); !text.empty()) {
        const bool list = each.kind == option_kind::list;
        take(each, list ? split_rules(text) : std::vector{text}, source::environment,
             "environment " + variable);
      }
      if (const auto found = given_.find(each.name); found != given_.end() && !found->second.empty()) {
        take(each, found->second, source::command_line, "command line");
      }
    }
    take_instance();
    check_writable_file();
    choose_database();
    take_metrics_token();
    if (!errors_.empty()) return usage_error{joined()};
    add_warnings();
    return std::move(out_);
  }

 private:
  bool in_scope(std::string_view name) const {
    const auto& names = scope_.names;
    return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
  }

  // Empty: not set.
  std::string environment(std::string_view variable) const {
    for (const auto& each : world_.environment) {
      if (each.first == variable) return std::string(pgwake::clean_text(each.second));
    }
    return {};
  }

  void check_environment() {
    for (const auto& each : world_.environment) {
      const std::string& variable = each.first;
      if (variable.compare(0, prefix.size(), prefix) != 0 || known_environment(variable) ||
          is_for_bindings(variable))
        continue;
      if (is_service_link(variable, each.second)) {
        service_links_.push_back(variable);
        continue;
      }
      std::vector<std::string> known(foreign_environment().begin(), foreign_environment().end());
      for (const option& one : option_table()) known.push_back(environment_of(one.name));
      errors_.push_back("unknown environment variable " + shown(variable) + did_you_mean(variable, known));
    }
  }

  // Where to look for the file, and who says so.
  std::pair<std::string, std::string> config_path() const {
    if (const auto found = given_.find("config"); found != given_.end() && !found->second.empty()) {
      return {found->second.back(), "command line"};
    }
    const std::string variable = environment_of("config");
    return {environment(variable), "environment " + variable};
  }

  void take_file(const std::pair<std::string, std::string>& from) {
    const std::string& path = from.first;
    if (path.empty()) return;
    const auto content = world_.read_file(path);
    if (!content) {
      errors_.push_back("config: cannot read " + shown(path) + ": " + content.error().reason + " (from " +
                        from.second + ")");
      return;
    }
    writable_file_ = is_writable_for_all(world_, path) ? path : std::string();
    const auto read = toml::read(*content);
    for (const toml::error& each : read.errors) take_error(path, each);
    for (const toml::entry& each : read.entries) take_entry(path, each);
  }

  void take_error(const std::string& path, const toml::error& each) {
    // Without its quotes nobody can say what a value is; the setting says what it should be.
    const option* which = each.key.empty() ? nullptr : find_option(each.key);
    if (!each.key.empty() && which == nullptr)
      errors_.push_back(unknown(path, each.key, each.line));
    else
      errors_.push_back(
          where(path, each.line) + ": " +
          (which != nullptr && !is_text(*which) ? takes(*which) : pgwake::hide_secrets_in(each.message, {})));
  }

  static std::string unknown(const std::string& path, const std::string& key, int line) {
    std::vector<std::string> known;
    for (const option& one : option_table()) known.emplace_back(one.name);
    return where(path, line) + ": unknown setting " + shown(key) + did_you_mean(key, known);
  }

  void take_entry(const std::string& path, const toml::entry& each) {
    const option* which = find_option(each.key);
    if (which == nullptr) {
      errors_.push_back(unknown(path, each.key, each.line));
      return;
    }
    if (which->name == "config") {
      errors_.push_back(where(path, each.line) +
                        ": config can be set on the command line or in the environment only");
      return;
    }
    if (!in_scope(which->name)) return;
    std::string why;
    const auto texts = as_texts(*which, each.value, why);
    const std::string origin_text = "file " + where(path, each.line);
    if (!texts) {
      fail(*which, why, origin_text);
      return;
    }
    take(*which, *texts, source::file, origin_text);
  }

  void take(const option& which, const std::vector<std::string>& texts, source from,
            const std::string& text) {
    if (const auto why = assign(which, texts, world_.names, out_.values)) {
      fail(which, *why, text);
      return;
    }
    origin& known = origin_of(which.name);
    known.from = from;
    known.text = text;
  }

  // What an instance of systemd has by default: its socket and, in that folder, which is no other hub's, the
  // front door.
  void take_instance() {
    settings& values = out_.values;
    const auto instance = instance_of(values.config);
    if (!instance) return;
    const std::string why = "default of " + shown(values.config);
    const std::string socket = "/run/pgwake/" + *instance + "/pgwake.sock";
    if (in_scope("socket") && out_.is_default("socket")) {
      values.socket = socket;
      origin_of("socket").text = why;
    }
    if (in_scope("front_door") && out_.is_default("front_door") && values.socket == socket) {
      values.front_door = true;
      origin_of("front_door").text = why;
    }
  }

  // One connection string: the higher level wins, and two of one level are a contradiction.
  void choose_database() {
    settings& values = out_.values;
    if (values.database.empty() || values.database_file.empty()) return;
    origin& direct = origin_of("database");
    origin& file = origin_of("database_file");
    if (direct.from == file.from) {
      errors_.push_back("database and database_file are both set; keep one (from " + direct.text +
                        (direct.text == file.text ? "" : " and " + file.text) + ")");
      return;
    }
    const bool direct_wins = direct.from > file.from;
    (direct_wins ? values.database_file : values.database).clear();
    origin& loser = direct_wins ? file : direct;
    loser.text += ", overruled by " + std::string(direct_wins ? "database" : "database_file");
  }

  void check_writable_file() {
    if (writable_file_.empty()) return;
    const std::string what = shown(writable_file_) + " may be written by everybody";
    if (out_.origin_of("database").from == source::file && pgwake::has_password(out_.values.database))
      errors_.push_back(what + " and holds a password; chmod o-w it, and have the password changed");
    else
      out_.warnings.push_back(what + ", who can so change where the hub connects; chmod o-w it");
  }

  // Whoever reads metrics from elsewhere has to say who he is.
  void take_metrics_token() {
    const settings& values = out_.values;
    if (!in_scope("metrics_token_file") || values.metrics_listen.kind == metrics_address::family::off) return;
    const std::string& path = values.metrics_token_file;
    if (path.empty()) {
      if (values.metrics_listen.leaves_the_host())
        fail(*find_option("metrics_listen"),
             to_string(values.metrics_listen) +
                 " can be reached from other hosts, and there is no authentication without a token; set "
                 "metrics_token_file, or write 127.0.0.1:PORT, [::1]:PORT, unix:PATH or off",
             out_.origin_of("metrics_listen").text);
      return;
    }
    const auto content = world_.read_file(path);
    const std::string from = out_.origin_of("metrics_token_file").text;
    if (!content)
      return fail(*find_option("metrics_token_file"),
                  "cannot read " + shown(path) + ": " + content.error().reason, from);
    out_.metrics_token = pgwake::clean_text(*content);
    if (const auto fault = token_fault(out_.metrics_token); !fault.empty())
      fail(*find_option("metrics_token_file"),
           shown(path) + " holds no token: " + std::string(fault) + "; `openssl rand -hex 32` makes one",
           from);
  }

  void add_warnings() {
    const settings& values = out_.values;
    if (!service_links_.empty()) {
      out_.warnings.push_back(
          service_links_.front() +
          (service_links_.size() > 1 ? " and " + std::to_string(service_links_.size() - 1) + " more" : "") +
          " ignored, which Kubernetes makes for a Service; enableServiceLinks: false in the pod leaves them "
          "out");
    }
    if (out_.origin_of("database").from == source::command_line && pgwake::has_password(values.database)) {
      out_.warnings.push_back(
          "database: a password on the command line shows in the process list; use database_file, "
          "PGWAKE_DATABASE or a passfile instead");
    }
    if (values.outbox_max_bytes > values.outbox_total_max_bytes) {
      out_.warnings.push_back("outbox_max_bytes (" + format_size(values.outbox_max_bytes) +
                              ") is above outbox_total_max_bytes (" +
                              format_size(values.outbox_total_max_bytes) +
                              "): no worker will reach its own limit; lower the one or raise the other");
    }
  }

  origin& origin_of(std::string_view name) {
    return *std::find_if(out_.origins.begin(), out_.origins.end(),
                         [&](const origin& o) { return o.name == name; });
  }

  void fail(const option& which, const std::string& why, const std::string& from) {
    errors_.push_back(std::string(which.name) + ": " + why + " (from " + from + ")");
  }

  static std::string shown(const std::string& text) {
    const std::string safe = without_secrets(text);
    const std::string quoted = toml::quote(pgwake::replace_bad_utf8(safe));
    return quoted.size() == safe.size() + 2 ? safe : quoted;
  }

  static std::string where(const std::string& path, int line) {
    return shown(path) + " line " + std::to_string(line);
  }

  std::string joined() const {
    std::string out;
    for (const std::string& each : errors_) out += (out.empty() ? "" : "\n") + each;
    return out;
  }

  const command_values& given_;
  const surroundings& world_;
  const load_scope& scope_;
  loaded out_;
  std::vector<std::string> errors_;
  std::vector<std::string> service_links_;  // variables that are none of ours
  std::string writable_file_;               // the settings file, if everybody may write it
};

}  // namespace

const origin& loaded::origin_of(std::string_view name) const {
  return *std::find_if(origins.begin(), origins.end(), [&](const origin& o) { return o.name == name; });
}

std::vector<std::string> usage_error::lines() const {
  std::vector<std::string> out;
  for (std::string_view rest = message; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    out.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return out;
}

namespace {

// The one name between both ends of a path.
std::optional<std::string> name_within(std::string_view path, std::string_view begin, std::string_view end) {
  if (!path.starts_with(begin) || path.size() <= begin.size() + end.size() || !path.ends_with(end))
    return std::nullopt;
  path.remove_prefix(begin.size());
  path.remove_suffix(end.size());
  if (path.find('/') != path.npos) return std::nullopt;
  return std::string(path);
}

// Where a file comes from, if that is not where it is.
std::string source_of_credential(std::string_view path) {
  const auto instance = name_within(path, "/run/credentials/pgwaked@", ".service/database");
  if (!instance) return {};
  return " (a copy of /etc/pgwake/" + *instance + ".database, made when the service started or was reloaded)";
}

}  // namespace

std::optional<std::string> instance_of(std::string_view config_path) {
  return name_within(config_path, "/etc/pgwake/", ".toml");
}

std::optional<std::string> instance_of_socket(std::string_view socket_path) {
  return name_within(socket_path, "/run/pgwake/", "/pgwake.sock");
}

boost::system::result<loaded, usage_error> load(const command_values& given, const surroundings& world,
                                                const load_scope& scope) {
  return loader(given, world, scope).run();
}

boost::system::result<loaded, usage_error> load(const std::vector<std::string>& args,
                                                const surroundings& world) {
  CLI::App app("", "pgwaked run");
  command_values given;
  add_options(app, given);
  const command_outcome outcome = parse_command(app, args);
  if (!outcome.go_on) return usage_error{outcome.err.substr(0, outcome.err.find_last_not_of('\n') + 1)};
  return load(given, world);
}

boost::system::result<std::string, usage_error> read_database(const settings& values,
                                                              const surroundings& world) {
  // g++ can make the error out of a string too (C++20's aggregates in parentheses), so say which
  // one is meant.
  using text = boost::system::result<std::string, usage_error>;
  const auto value = [](std::string conninfo) {
    return text(boost::system::in_place_value, std::move(conninfo));
  };
  const auto stripped = [](std::string_view raw) {
    raw = pgwake::clean_text(raw);
    return std::string(raw.substr(std::min(raw.find_first_not_of(" \t\r\n\v\f"), raw.size())));
  };
  if (values.database_file.empty()) return value(stripped(values.database));
  const auto content = world.read_file(values.database_file);
  const std::string name = "database_file: " + toml::quote(without_secrets(values.database_file)) +
                           source_of_credential(values.database_file);
  if (!content) return usage_error{name + " cannot be read: " + content.error().reason};
  const std::string conninfo = stripped(*content);
  if (conninfo.empty()) return usage_error{name + " is empty; write a libpq connection string into it"};
  if (conninfo.starts_with("\xFF\xFE") || conninfo.starts_with("\xFE\xFF"))
    return usage_error{name + " is in UTF-16; save it as UTF-8"};
  if (conninfo.find('\0') != std::string::npos)
    return usage_error{name + " is not a text file (it holds a NUL byte)"};
  if (is_writable_for_all(world, values.database_file) && pgwake::has_password(conninfo))
    return usage_error{name +
                       " may be written by everybody and holds a password; chmod o-w it, and have the "
                       "password changed"};
  return value(conninfo);
}

void print_config(std::ostream& out, const loaded& what) {
  for (const option& each : option_table()) {
    // The file cannot name itself, so that line is a comment.
    out << (each.name == "config" ? "# " : "") << each.name << " = " << show(each, what.values) << "  # "
        << what.origin_of(each.name).text << '\n';
  }
}

std::vector<change> differences(const settings& before, const settings& after) {
  std::vector<change> out;
  for (const option& each : option_table()) {
    const bool same = std::visit([&](auto field) { return before.*field == after.*field; }, each.field);
    if (!same) out.push_back({each.name, each.reloadable, show(each, before), show(each, after)});
  }
  return out;
}

settings reloaded(const settings& before, const settings& after) {
  settings out = before;
  for (const option& each : option_table()) {
    if (each.reloadable) std::visit([&](auto field) { out.*field = after.*field; }, each.field);
  }
  return out;
}

}  // namespace pgwaked
