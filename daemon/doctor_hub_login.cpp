#include "daemon/doctor_hub_login.hpp"

#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "common/pg/conninfo.hpp"
#include "daemon/options.hpp"

namespace pgwaked {
namespace {

// A list of /proc, each entry with a NUL after it. Nothing if it may not be read.
std::optional<std::vector<std::string>> list_in(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  std::vector<std::string> out;
  for (std::string one; std::getline(in, one, '\0');) out.push_back(std::move(one));
  if (in.bad()) return std::nullopt;
  return out;
}

// The arguments of `pgwaked run`. Nothing where another program has that process ID: a hub in a container
// says the one that it has there.
std::optional<std::vector<std::string>> arguments_of_run(const std::string& process) {
  auto all = list_in(process + "/cmdline");
  if (!all || all->size() < 2 || (*all)[1] != "run") return std::nullopt;
  const std::string_view program = all->front();
  if (program.substr(program.rfind('/') + 1) != "pgwaked") return std::nullopt;  // npos + 1: all of it
  all->erase(all->begin(), all->begin() + 2);
  return all;
}

std::string value_of(const surroundings& world, std::string_view variable) {
  for (const auto& [name, value] : world.environment)
    if (name == variable) return value;
  return {};
}

}  // namespace

std::optional<std::string> database_user_of(std::int64_t pid, const std::string& account) {
  const auto process = "/proc/" + std::to_string(pid);
  const auto arguments = arguments_of_run(process);
  if (!arguments) return std::nullopt;
  auto world = real_surroundings();
  world.environment.clear();
  // Only root and the hub's own account may read it. Without it: what the command line and its file say.
  const auto environment = list_in(process + "/environ");
  for (const auto& one : environment.value_or(std::vector<std::string>{}))
    if (const auto equals = one.find('='); equals != one.npos)
      world.environment.emplace_back(one.substr(0, equals), one.substr(equals + 1));
  world.read_file = [read = world.read_file, process](const std::string& path) {
    return read(path.starts_with('/') ? path : process + "/cwd/" + path);
  };
  auto all = load(*arguments, world);
  if (!all) return std::nullopt;
  all->values.database_file = readable_database_file(all->values);
  const auto conninfo = read_database(all->values, world);
  if (!conninfo) return std::nullopt;
  if (auto user = pgwake::pg::value_in(*conninfo, "user")) return user;
  const bool by_service = pgwake::pg::value_in(*conninfo, "service") || !value_of(world, "PGSERVICE").empty();
  if (!environment || by_service) return std::nullopt;
  const auto user = value_of(world, "PGUSER");
  return user.empty() ? account : user;
}

std::string readable_database_file(const settings& values) {
  const auto instance = instance_of(values.config);
  if (!instance || values.database_file != "/run/credentials/pgwaked@" + *instance + ".service/database" ||
      access(values.database_file.c_str(), R_OK) == 0)
    return values.database_file;
  return values.config.substr(0, values.config.rfind('.')) + ".database";
}

}  // namespace pgwaked
