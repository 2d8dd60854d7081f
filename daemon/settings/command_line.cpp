#include "daemon/settings/command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "common/redact.hpp"
#include "daemon/settings/nearest.hpp"
#include "daemon/settings/option_table.hpp"
#include "daemon/settings/toml.hpp"

namespace pgwaked {
namespace {

constexpr int wrong_usage = 2;

constexpr std::size_t help_column = 33;  // the widest option and its value, so that no line breaks there

std::string description(const option& which) {
  std::string_view initial = which.initial;
  if (initial.empty()) initial = which.kind == option_kind::list ? "everyone" : "none";
  return std::string(which.help) + " [" + std::string(initial) + "]";
}

constexpr std::string_view footer =
    "Each option is also a key of the file given with --config (outbox_max_bytes = \"16MiB\") and an\n"
    "environment variable (PGWAKE_OUTBOX_MAX_BYTES). The command line wins over the environment, that over\n"
    "the file, that over the default in [brackets]. Durations: 250ms, 15s, 2m, 1h. Sizes: 64KiB, 16MiB, "
    "1GiB.";

// The innermost subcommand that was reached.
const CLI::App& reached(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().back();
  return *at;
}

std::string full_name(const CLI::App& app) {
  const std::string own = app.get_name();
  return app.get_parent() == nullptr ? own : full_name(*app.get_parent()) + " " + own;
}

std::string suggestion(std::string_view name, const std::vector<std::string>& known) {
  const std::string_view near = nearest(name, {known.begin(), known.end()});
  return near.empty() ? std::string() : "; did you mean " + std::string(near) + "?";
}

// What comes after `--` is marked by a byte that no argument can have, so that CLI11 sees in it neither
// options nor commands. Its own handling of `--` holds only as long as no argument came before it.
constexpr char taken_as_is = '\0';

bool is_marked(const std::string& argument) { return !argument.empty() && argument.front() == taken_as_is; }

std::string unmarked(std::string argument) {
  if (is_marked(argument)) argument.erase(0, 1);
  return argument;
}

void mark_after_dashes(std::vector<std::string>& args) {
  const auto dashes = std::find(args.begin(), args.end(), "--");
  if (dashes == args.end()) return;
  for (auto each = args.erase(dashes); each != args.end(); ++each) each->insert(0, 1, taken_as_is);
}

void unmark_arguments(CLI::App& app) {
  for (CLI::Option* each : app.get_options())
    if (each->get_positional()) each->transform(unmarked);
  for (CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; })) unmark_arguments(*each);
}

std::string unexpected(const CLI::App& app, const std::string& argument) {
  std::vector<std::string> known;
  if (is_marked(argument))
    return "unexpected argument " + toml::quote(pgwake::hide_password(unmarked(argument)));
  if (argument.size() > 1 && argument.front() == '-') {
    for (const CLI::Option* each : app.get_options()) {
      for (const std::string& name : each->get_lnames()) known.push_back("--" + name);
    }
    // Not the value: it may be a password.
    const std::string name = argument.substr(0, argument.find('='));
    return "unknown option " + toml::quote(pgwake::hide_in_value(name)) + suggestion(name, known);
  }
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* each : commands) known.push_back(each->get_name());
  const std::string shown = toml::quote(pgwake::hide_password(argument));
  if (!commands.empty()) return "unknown command " + shown + suggestion(argument, known);
  return "unexpected argument " + shown;
}

// An option of the command `at` that stands before it, where it is nobody's.
std::string misplaced(const CLI::App& app, const CLI::App& at) {
  for (const CLI::App* above = at.get_parent(); above != nullptr; above = above->get_parent()) {
    for (const std::string& each : above->remaining()) {
      const std::string name = each.substr(0, each.find('='));
      if (name.size() > 1 && name.front() == '-' && at.get_option_no_throw(name) != nullptr)
        return "options come after the command: " + full_name(at) + " " + name;
    }
    if (above == &app) break;
  }
  return {};
}

// CLI11 takes `--name=` for `--name` with its value still to come; here it is an empty value.
void split_empty_values(std::vector<std::string>& args) {
  for (std::size_t i = 0; i < args.size() && args[i] != "--"; ++i) {
    std::string& each = args[i];
    if (each.size() > 3 && each.compare(0, 2, "--") == 0 && each.find('=') == each.size() - 1) {
      each.pop_back();
      args.insert(args.begin() + static_cast<std::ptrdiff_t>(i) + 1, "");
      ++i;
    }
  }
}

std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& at = reached(app);
  std::string what = pgwake::hide_secrets_in(error.what(), {});
  const std::vector<std::string> extras = app.remaining(true);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !extras.empty()) {
    what = misplaced(app, at);
    if (what.empty()) what = unexpected(at, extras.front());
  } else if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && at.get_subcommands().empty() &&
             !extras.empty()) {
    what = unexpected(at, extras.front());
  }
  return full_name(at) + ": " + what + " (try " + full_name(at) + " --help)\n";
}

}  // namespace

void add_options(CLI::App& app, command_values& into, std::span<const std::string_view> names) {
  app.get_formatter()->column_width(help_column);
  if (names.empty()) app.footer(std::string(footer));
  for (const option& each : option_table()) {
    if (!names.empty() && std::find(names.begin(), names.end(), each.name) == names.end()) continue;
    const std::string key(each.name);
    if (each.kind == option_kind::boolean) {
      // `each` sees the text as it stands; CLI11's own conversion throws std::invalid_argument at "maybe".
      app.add_flag(flag_of(key))->description(description(each))->each([&into, key](const std::string& text) {
        into[key] = {text};
      });
      continue;
    }
    const CLI::callback_t store = [&into, key](const CLI::results_t& texts) {
      into[key] = texts;
      return true;
    };
    CLI::Option* added = app.add_option(flag_of(key), store, description(each));
    added->type_name(std::string(placeholder_of(each)))->type_size(1)->expected(1)->allow_extra_args(false);
    // A repeated option: rules add up, anything else is overruled by the last, as wrapper scripts expect.
    if (each.kind == option_kind::list) {
      added->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    } else {
      added->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }
  }
}

command_outcome parse_command(CLI::App& app, std::vector<std::string> args) {
  command_outcome out;
  split_empty_values(args);
  mark_after_dashes(args);
  unmark_arguments(app);
  std::reverse(args.begin(), args.end());  // CLI11 takes them from the back
  try {
    app.parse(std::move(args));
    return out;
  } catch (const CLI::CallForVersion& version) {
    out.out = version.what();
    out.out += '\n';
  } catch (const CLI::Success&) {
    out.out = app.help();
  } catch (const CLI::ParseError& error) {
    out.exit_code = wrong_usage;
    out.err = explain(app, error);
  }
  out.go_on = false;
  return out;
}

}  // namespace pgwaked
