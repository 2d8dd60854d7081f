#pragma once

#include <boost/system/result.hpp>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/settings.hpp"

namespace CLI {
class App;
}

namespace pgwaked {

/// Wrong usage: one or more lines for people, without a trailing newline, passwords hidden. The process exits
/// with `exit_code`.
struct usage_error {
  static constexpr int exit_code = 2;
  std::string message;
};

enum class option_kind { text, path, duration, size, count, boolean, mode, list, level, format, address };

/// One setting. Its command line option, TOML key and environment variable follow from `name`.
struct option {
  using member = std::variant<std::string settings::*, std::chrono::milliseconds settings::*,
                              std::uint64_t settings::*, unsigned settings::*, bool settings::*,
                              pgwaked::log_level settings::*, pgwaked::log_format settings::*,
                              metrics_address settings::*, std::vector<allow_rule> settings::*>;

  std::string_view name;      ///< `outbox_max_bytes`
  option_kind kind;           ///< how a value is written
  member field;               ///< where it goes
  std::string_view initial;   ///< the default, as one would write it; empty: none
  std::string_view help;      ///< one line
  bool reloadable;            ///< SIGHUP may change it without dropping a worker
  bool secret = false;        ///< may hold a password
  std::uint64_t min = 0;      ///< milliseconds, bytes, or a plain count
  std::uint64_t max = 0;      ///< inclusive; 0: no bounds
  std::string_view why = "";  ///< why these bounds
};

/// Every setting of `run`, in the order in which people read them.
std::span<const option> option_table();
const option* find_option(std::string_view name);
std::string flag_of(std::string_view name);         ///< `--outbox-max-bytes`
std::string environment_of(std::string_view name);  ///< `PGWAKE_OUTBOX_MAX_BYTES`

/// Whether PGWAKE_* variable `name` is known to any part of pgwake (daemon, client library, tests).
bool known_environment(std::string_view name);

/// What load() asks of the world, injected so that tests do no I/O.
struct surroundings {
  std::vector<std::pair<std::string, std::string>> environment;
  /// A file's whole content, or the reason for people (`No such file or directory`).
  std::function<boost::system::result<std::string, usage_error>(const std::string& path)> read_file;
  std::function<std::optional<std::uint32_t>(const std::string& name)> user_id;
  std::function<std::optional<std::uint32_t>(const std::string& name)> group_id;
};
surroundings real_surroundings();

enum class source { builtin, file, environment, command_line };

struct origin {
  std::string_view name;  ///< the option's; points into the table
  source from = source::builtin;
  std::string text = "default";  ///< `file /etc/pgwake/main.toml line 12`, `environment PGWAKE_X`, ...
};

struct loaded {
  settings values;
  std::vector<origin> origins;        ///< one per option of the table, in its order
  std::vector<std::string> warnings;  ///< to be logged once; passwords hidden

  const origin& origin_of(std::string_view name) const;  ///< `name` must be in the table
  bool is_default(std::string_view name) const { return origin_of(name).from == source::builtin; }
};

/// What the command line gave, by option name, unparsed. Kept by `run`, for reload.
using command_values = std::map<std::string, std::vector<std::string>, std::less<>>;

/// Registers options of the table on `app`; parsing fills `into`, which must outlive `app`. No names: all.
void add_options(CLI::App& app, command_values& into, std::span<const std::string_view> names = {});

/// A parsed command line, or what to print and how to exit instead.
struct command_outcome {
  bool go_on = true;
  int exit_code = 0;
  std::string out;  ///< for stdout: help or version
  std::string err;  ///< for stderr: what was wrong, with the nearest name
};
/// `args` without the program's name. Never exits, never throws CLI's errors, prints nothing.
command_outcome parse_command(CLI::App& app, std::vector<std::string> args);

struct load_scope {
  std::span<const std::string_view> names = {};  ///< only these options; empty: all
  bool strict_environment = true;                ///< an unknown PGWAKE_* variable is an error
};
/// Command line over environment over file over default. Every level is checked, even where a higher one
/// wins. All problems are reported at once. An empty environment variable counts as not set.
boost::system::result<loaded, usage_error> load(const command_values& given, const surroundings& world,
                                                const load_scope& scope = {});
/// The same from `run`'s arguments.
boost::system::result<loaded, usage_error> load(const std::vector<std::string>& args,
                                                const surroundings& world);

/// The connection string: `database`, or what `database_file` holds, without surrounding white space.
/// Read anew at each call, so that a reload sees a new password.
boost::system::result<std::string, usage_error> read_database(const settings& values,
                                                              const surroundings& world);

/// Every setting as a line `name = value  # origin`, valid as a config file except that passwords are hidden.
void print_config(std::ostream& out, const loaded& what);

/// A setting's value as print_config writes it (TOML, passwords hidden).
std::string show(const option& which, const settings& values);

struct change {
  std::string_view name;
  bool reloadable = false;
  std::string before;  ///< as show() writes it
  std::string after;
};
std::vector<change> differences(const settings& before, const settings& after);

}  // namespace pgwaked
