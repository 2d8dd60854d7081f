#pragma once

#include <boost/system/result.hpp>
#include <functional>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/settings/command_line.hpp"
#include "daemon/settings/option_table.hpp"
#include "daemon/settings/option_value.hpp"
#include "daemon/settings/settings.hpp"

namespace pgwaked {

// Wrong usage: one or more lines for people, without a trailing newline, passwords hidden. The process
// exits with `exit_code`.
struct usage_error {
  static constexpr int exit_code = 2;
  std::string message;
  std::vector<std::string> lines() const;
};

// What load() asks of the world, injected so that tests do no I/O.
struct surroundings {
  std::vector<std::pair<std::string, std::string>> environment;
  // A file's whole content, or the reason for people (`No such file or directory`).
  std::function<boost::system::result<std::string, value_error>(const std::string& path)> read_file;
  // Permission bits of a regular file; nullopt: it is none, or cannot be seen. Unset: none can.
  std::function<std::optional<unsigned>(const std::string& path)> mode_of = {};
  name_resolver names;
};
surroundings real_surroundings();  // the process's own; in surroundings.cpp

enum class source { builtin, file, environment, command_line };

struct origin {
  std::string_view name;  // the option's; points into the table
  source from = source::builtin;
  std::string text = "default";  // `file /etc/pgwake/main.toml line 12`, `environment PGWAKE_X`, ...
};

struct loaded {
  settings values;
  std::vector<origin> origins;        // one per option of the table, in its order
  std::vector<std::string> warnings;  // `what; what to do`: to be logged once; passwords hidden
  std::string metrics_token;          // what metrics_token_file holds; empty: none is asked for

  const origin& origin_of(std::string_view name) const;  // `name` must be in the table
  bool is_default(std::string_view name) const { return origin_of(name).from == source::builtin; }
};

// The systemd instance whose settings file this is: `shop` for /etc/pgwake/shop.toml, nothing for other
// places. Its socket is /run/pgwake/shop/pgwake.sock unless `socket` is set, as pgwaked@.service has it, and the
// front door is there too unless `front_door` is false.
std::optional<std::string> instance_of(std::string_view config_path);
std::optional<std::string> instance_of_socket(std::string_view socket_path);

struct load_scope {
  std::span<const std::string_view> names = {};  // only these options; empty: all
  bool strict_environment = true;                // an unknown PGWAKE_* variable is an error
};
// Command line over environment over file over default. Every level is checked, even where a higher one
// wins. All problems are reported at once. An empty environment variable counts as not set.
boost::system::result<loaded, usage_error> load(const command_values& given, const surroundings& world,
                                                const load_scope& scope = {});
// The same from `run`'s arguments.
boost::system::result<loaded, usage_error> load(const std::vector<std::string>& args,
                                                const surroundings& world);

// The connection string: `database`, or what `database_file` holds, without surrounding white space and a
// byte order mark. A file with a password that everybody may write is refused.
// Read anew at each call, so that a reload sees a new password.
boost::system::result<std::string, usage_error> read_database(const settings& values,
                                                              const surroundings& world);

// Every setting as a line `name = value  # origin`, valid as a config file except that passwords are hidden.
void print_config(std::ostream& out, const loaded& what);

struct change {
  std::string_view name;
  bool reloadable = false;
  std::string before;  // as show() writes it
  std::string after;
};
std::vector<change> differences(const settings& before, const settings& after);
// `before` with what a reload may change taken from `after`.
settings reloaded(const settings& before, const settings& after);

}  // namespace pgwaked
