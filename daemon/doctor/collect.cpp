#include "daemon/doctor/collect.hpp"

#include <grp.h>
#include <netdb.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <thread>

#include "common/census.hpp"
#include "common/os/host_name.hpp"
#include "common/redact.hpp"
#include "common/units.hpp"
#include "daemon/doctor/door.hpp"
#include "daemon/doctor/host.hpp"
#include "daemon/doctor/session.hpp"
#include "daemon/operator/hub_client.hpp"
#include "daemon/settings/options.hpp"

namespace pgwaked {

using namespace pgwake;
using steady = std::chrono::steady_clock;

namespace {

constexpr std::chrono::seconds hub_patience{3};
constexpr double just_started = 5;  // seconds
constexpr std::size_t most_hosts = 8;

std::string name_of_user(uid_t id) {
  const auto* entry = getpwuid(id);
  return entry != nullptr ? entry->pw_name : std::to_string(id);
}

std::string name_of_group(gid_t id) {
  const auto* entry = getgrgid(id);
  return entry != nullptr ? entry->gr_name : std::to_string(id);
}

// `database_file`, or where systemd has it from: the copy that it made for an instance's hub may not be there
// to be read.
std::string readable_database_file(const settings& values) {
  const auto instance = instance_of(values.config);
  if (!instance || values.database_file != "/run/credentials/pgwaked@" + *instance + ".service/database" ||
      access(values.database_file.c_str(), R_OK) == 0)
    return values.database_file;
  return values.config.substr(0, values.config.rfind('.')) + ".database";
}

// The instance's secrets, which its hub has from systemd: read from where systemd has them. Only root may.
void use_secrets_of_instance(settings& values) {
  const auto instance = instance_of(values.config);
  if (!instance) return;
  const auto base = values.config.substr(0, values.config.rfind('.'));
  const auto readable = [](const std::string& path) { return access(path.c_str(), R_OK) == 0; };
  if (std::getenv("PGPASSFILE") == nullptr && readable(base + ".pgpass"))
    setenv("PGPASSFILE", (base + ".pgpass").c_str(), 1);
  values.database_file = readable_database_file(values);
}

// Which file it is says which instance, whatever is wrong in it.
void name_instance(const doctor_options& options, const surroundings& world, loaded& out) {
  auto& values = out.values;
  const auto given = options.given.find("config");
  if (given != options.given.end() && !given->second.empty())
    values.config = given->second.back();
  else
    for (const auto& [name, value] : world.environment)
      if (name == "PGWAKE_CONFIG") values.config = value;
  const auto instance = instance_of(values.config);
  if (instance && out.is_default("socket")) values.socket = "/run/pgwake/" + *instance + "/pgwake.sock";
}

// Settings that make no sense are a finding; the other checks go on with what can be used of them.
void take_settings(const doctor_options& options, doctor_facts& out) {
  const auto world = real_surroundings();
  auto all = load(options.given, world);
  if (!all) {
    out.settings_errors = all.error().lines();
    constexpr std::array<std::string_view, 5> needed = {"socket", "database", "database_file",
                                                        "connect_timeout", "application_name"};
    all = load(options.given, world, {needed, false});
    if (all) name_instance(options, world, *all);
  }
  if (!all) return;
  all->values.socket = hub_socket(*all);
  out.configured = std::move(all->values);
  use_secrets_of_instance(out.configured);
  out.settings_warnings = std::move(all->warnings);
}

void take_threshold(const std::string& text, doctor_facts& out) {
  if (text.empty()) return;
  double per_cent = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), per_cent);
  if (error == std::errc() && end == text.data() + text.size() && per_cent > 0 && per_cent <= 100)
    out.queue_threshold = per_cent / 100;
  else
    out.number_errors.push_back("--queue-threshold=" + text +
                                ": write a number of per cent above 0 and up to 100, such as 10");
}

// As the client library reads it.
void take_fallback_limit(std::string text, doctor_facts& out) {
  constexpr std::uint64_t most = 10'000;
  std::string name = "--fallback-limit";
  if (const char* variable = std::getenv("PGWAKE_FALLBACK_LIMIT"); text.empty() && variable != nullptr) {
    name = "PGWAKE_FALLBACK_LIMIT";
    text = variable;
  }
  if (text.empty() || text == "auto") return;
  const auto number = parse_count(text);
  if (!number)
    out.number_errors.push_back(name + "=" + text + ": " + number.error().reason);
  else if (*number > most)
    out.number_errors.push_back(name + "=" + text + ": the most is 10000; 0 means no limit");
  else if (*number > 0)
    out.fallback_limit = *number;
}

// As the client library reads it: a name, or a number.
void take_hub_user(doctor_facts& out) {
  const char* variable = std::getenv("PGWAKE_HUB_USER");
  if (variable == nullptr || *variable == '\0') return;
  out.hub_user = variable;
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(variable, variable + out.hub_user.size(), number);
  if (error == std::errc() && *end == '\0') out.hub_user = name_of_user(number);
}

void look_at_hub(doctor_facts& out) {
  auto& s = out.socket;
  s.path = out.configured.socket;
  if (struct stat is{}; stat(s.path.c_str(), &is) == 0) {
    s.exists = true;
    s.is_socket = S_ISSOCK(is.st_mode);
    s.mode = is.st_mode & 07777U;
    s.owner = name_of_user(is.st_uid);
    s.group = name_of_group(is.st_gid);
  }
  auto hub = hub_client::open(s.path, "pgwaked doctor", hub_patience);
  if (!hub) {
    s.failure = hub.error();
    return;
  }
  auto json = hub->stats();
  auto status = json ? parse_status(*json) : std::nullopt;
  // A hub that was started a moment ago gets the time to connect.
  const auto until = steady::now() + hub_patience;
  while (status && !status->healthy && status->uptime_s < just_started && steady::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    json = hub->stats();
    status = json ? parse_status(*json) : std::nullopt;
  }
  if (!json) {
    s.failure = json.error();
    return;
  }
  if (status)
    out.hub = doctor_facts::hub_look{std::move(*status), hub->server_uid(), name_of_user(hub->server_uid()),
                                     std::move(*json)};
}

// The limit of the hub's process; 0 where that cannot be seen: ours says nothing about it.
std::uint64_t descriptors_of(const std::optional<doctor_facts::hub_look>& hub) {
  if (!hub) return 0;
  std::ifstream in("/proc/" + std::to_string(hub->status.pid) + "/limits");
  for (std::string line; std::getline(in, line);) {
    constexpr std::string_view title = "Max open files";
    if (!line.starts_with(title)) continue;
    const auto soft = line.find_first_not_of(' ', title.size());
    std::uint64_t number = 0;
    std::from_chars(line.data() + soft, line.data() + line.size(), number);
    return number;
  }
  return 0;
}

// As the hub's own user, who may read less than root: a umask of 077 closes what root has written.
void look_at_files(doctor_facts& out) {
  std::string account = out.hub ? out.hub->user : out.unit && !out.unit->user.empty() ? out.unit->user : "";
  if (account.empty() && instance_of(out.configured.config)) account = out.hub_user;
  if (account.empty() || account == "root") return;
  const auto& s = out.configured;
  const bool credential = instance_of(s.config).has_value();  // systemd reads it, as root
  for (const auto& path : {s.config, credential ? std::string() : s.database_file})
    if (auto why = unreadable_for(account, path); !why.empty())
      out.unreadable.push_back({path, account, std::move(why)});
}

void look_at_passfile(const std::string& conninfo, doctor_facts& out) {
  const auto path = passfile_of(conninfo);
  struct stat is {};
  if (!path.empty() && stat(path.c_str(), &is) == 0 && S_ISREG(is.st_mode) && (is.st_mode & 0077U) != 0)
    out.open_passfile = path;
}

void resolve(doctor_facts::server_look& s) {
  if (s.host.is_directory()) return;
  const auto& name = s.host.hostaddr.empty() ? s.host.host : s.host.hostaddr;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const auto begin = steady::now();
  const int error = getaddrinfo(name.c_str(), nullptr, &hints, &found);
  s.resolve_ms = std::chrono::duration_cast<millis>(steady::now() - begin).count();
  if (error != 0) {
    s.resolve_error = gai_strerror(error);
    return;
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  for (const auto* a = found; a != nullptr; a = a->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (getnameinfo(a->ai_addr, a->ai_addrlen, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0)
      s.addresses.emplace_back(text.data());
  }
}

void look_at_servers(const pg::connect_settings& how, const std::string& conninfo, doctor_facts& out) {
  const auto target = pg::target_of(how);
  out.target_fault = target.fault;
  out.user = target.user;
  out.database = target.database;
  out.sslmode = target.sslmode;
  if (!target.fault.empty()) return;
  std::optional<pg::blocking_session> chosen;
  std::size_t chosen_at = 0;
  for (const auto& host : target.hosts) {
    if (out.servers.size() == most_hosts) break;
    auto& s = out.servers.emplace_back();
    s.host = host;
    resolve(s);
    if (!s.resolve_error.empty()) {
      continue;
    }
    auto session = pg::blocking_session::open(how, host, how.connect_timeout);
    if (!session) {
      s.failure = session.error();
      s.failure->message = hide_secrets_in(s.failure->message, conninfo);
      if (s.failure->message.find("certificate") != std::string::npos)
        s.tls = pg::look_at_certificate(how, host, how.connect_timeout);
      continue;
    }
    s.tls = session->tls();
    s.in_recovery = in_recovery(*session);
    const bool primary = s.in_recovery == false;
    const bool have_primary = chosen && out.servers[chosen_at].in_recovery == false;
    if (chosen && (have_primary || !primary)) continue;
    chosen.emplace(std::move(*session));
    chosen_at = out.servers.size() - 1;
  }
  if (chosen) {
    out.session = look_through(*chosen, how, out.servers[chosen_at], out);
    if (out.configured.front_door && out.hub && out.hub->status.healthy)
      out.door = look_at_door(*chosen, out);
  }
  // After a misplaced separator a part of the password; a variable may hold a whole URI.
  for (auto* shown : {&out.user, &out.database}) *shown = hide_in_value(hide_secrets_in(*shown, conninfo));
  for (auto& s : out.servers) s.host.host = hide_in_value(hide_secrets_in(s.host.host, conninfo));
}

}  // namespace

doctor_facts collect(const doctor_options& options) {
  doctor_facts out;
  out.version = PGWAKE_VERSION_STRING;
  out.this_host = census_host(host_name());
  out.our_uid = geteuid();
  take_settings(options, out);
  take_threshold(options.queue_threshold, out);
  take_fallback_limit(options.fallback_limit, out);
  take_hub_user(out);
  look_at_hub(out);
  out.descriptors = descriptors_of(out.hub);
  if (const auto named = instance_of(out.configured.config))
    out.unit = look_at_unit(*named);
  else if (const auto by_socket = instance_of_socket(out.configured.socket))
    out.unit = look_at_unit(*by_socket);
  look_at_files(out);
  const auto conninfo = read_database(out.configured, real_surroundings());
  if (!conninfo) {
    if (out.settings_errors.empty()) out.settings_errors = conninfo.error().lines();
    return out;
  }
  out.conninfo_shown = hide_password(*conninfo);
  look_at_passfile(*conninfo, out);
  pg::connect_settings how;
  how.conninfo = *conninfo;
  how.application_name = "pgwake-doctor@" + out.this_host;
  how.connect_timeout = out.configured.connect_timeout;
  look_at_servers(how, *conninfo, out);
  return out;
}

}  // namespace pgwaked
