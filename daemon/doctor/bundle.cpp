#include "daemon/doctor/bundle.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>

#include "common/pg/conninfo.hpp"
#include "common/redact.hpp"
#include "daemon/doctor/host.hpp"
#include "daemon/doctor/secret_filter.hpp"
#include "daemon/doctor/tar_archive.hpp"
#include "daemon/io/socket_file.hpp"
#include "daemon/metrics/fetch.hpp"
#include "daemon/settings/options.hpp"
#include "daemon/terminal/text.hpp"

namespace pgwaked {

using namespace pgwake;

namespace {

constexpr std::chrono::seconds metrics_patience{5};
constexpr std::size_t unwrapped = 100'000;  // a secret that a line break divides would not be found
constexpr int journal_lines = 1'000;
constexpr const char* folder = "pgwaked-bundle/";

std::string not_here(const std::string& why) { return "(not here: " + why + ")\n"; }

std::string whole_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string now_as_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char out[32];
  std::strftime(out, sizeof out, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return out;
}

std::string config_text(const boost::system::result<loaded, usage_error>& configuration) {
  std::ostringstream out;
  if (configuration) {
    print_config(out, *configuration);
    for (const auto& each : configuration->warnings) out << "# warning: " << each << "\n";
  } else {
    out << configuration.error().message << "\n";
  }
  return out.str();
}

std::string unit_text(const doctor_facts& f) {
  if (!f.unit) return not_here("no unit of systemd belongs to these settings, or systemd does not run here");
  const auto& u = *f.unit;
  return u.name + "\nstate " + u.state + "\nresult " + u.result + "\nexit status " + u.exit_status +
         "\nrestarts " + std::to_string(u.restarts) + "\nuser " + u.user + "\n";
}

std::string journal_text(const doctor_facts& f) {
  if (!f.unit)
    return not_here("no unit of systemd belongs to these settings; the hub's log is on its stderr");
  std::string out;
  for (const auto& line : journal_of(f.unit->name, journal_lines)) out += line + "\n";
  return out.empty() ? not_here("the journal cannot be read by this user, or holds nothing") : out;
}

std::string versions_text(const doctor_facts& f) {
  std::string out = "pgwaked doctor " + f.version + "\nhub " +
                    (f.hub ? f.hub->status.version : std::string("none that answers")) + "\nlibpq " +
                    pg::libpq_version() + "\nserver ";
  std::int64_t server = f.session ? f.session->server_version : 0;
  if (server == 0 && f.hub) server = f.hub->status.upstream.server_version;
  const auto named = server_version_name(server);
  out += named.empty() ? "not known" : named;
  utsname kernel{};
  if (uname(&kernel) == 0)
    out += std::string("\nkernel ") + kernel.sysname + " " + kernel.release + " " + kernel.machine;
  std::istringstream release(whole_file("/etc/os-release"));
  for (std::string line; std::getline(release, line);)
    if (line.starts_with("PRETTY_NAME=")) out += "\nsystem " + line.substr(line.find('=') + 1);
  return out + "\n";
}

std::string limits_text(const doctor_facts& f) {
  if (!f.hub) return not_here("no hub answers");
  const auto process = "/proc/" + std::to_string(f.hub->status.pid);
  const auto limits = whole_file(process + "/limits");
  if (limits.empty()) return not_here("the hub's process cannot be seen from here");
  std::string out = limits + "\n";
  std::istringstream status(whole_file(process + "/status"));
  for (std::string line; std::getline(status, line);)
    for (const char* wanted : {"Name:", "Uid:", "Gid:", "Groups:", "FDSize:", "VmPeak:", "VmRSS:", "VmHWM:",
                               "VmSwap:", "Threads:", "Seccomp:", "NoNewPrivs:", "Cpus_allowed_list:"})
      if (line.starts_with(wanted)) out += line + "\n";
  return out + "\ncgroup\n" + whole_file(process + "/cgroup");
}

std::string metrics_text(const boost::system::result<loaded, usage_error>& configuration) {
  if (!configuration) return not_here("the settings are wrong");
  auto page =
      fetch_metrics(configuration->values.metrics_listen, configuration->metrics_token, metrics_patience);
  return page ? std::move(*page) : not_here(page.error().reason);
}

// All that this process could know and must not tell.
secret_filter filter_of(const doctor_options& options, const doctor_facts& facts,
                        const boost::system::result<loaded, usage_error>& configuration) {
  const auto world = real_surroundings();
  secret_filter out;
  out.add_environment(world.environment);
  for (const auto& [name, values] : options.given)
    if (name == "database")
      for (const auto& each : values) out.add_conninfo(each);
  std::string conninfo;
  if (const auto read = read_database(facts.configured, world)) conninfo = *read;
  out.add_conninfo(conninfo);
  for (const char* keyword : {"password", "sslpassword"})
    if (const auto value = pg::value_in(conninfo, keyword)) out.add(*value);
  if (const auto path = passfile_of(conninfo); !path.empty())
    if (const auto content = world.read_file(path)) out.add_passfile(*content);
  if (configuration) out.add(configuration->metrics_token);
  return out;
}

std::string readme_text(const std::vector<archived_file>& files, const doctor_facts& f) {
  std::string out = "Made by pgwaked doctor --bundle (" + f.version + ") at " + now_as_text() + " on " +
                    f.this_host + ", for the hub at " + f.socket.path +
                    ".\n\nPasswords, tokens and keys are replaced by ***. Names of hosts, users, databases, "
                    "roles, workers\nand channels are in it; payloads never are.\n\n";
  for (const auto& file : files) out += file.name.substr(std::strlen(folder)) + "\n";
  return out;
}

// Empty: all of it is in a new file.
std::string write_new_file(const std::string& path, std::string_view content) {
  const unique_fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return std::strerror(errno);
  std::string why;
  while (!content.empty() && why.empty()) {
    const auto n = write(fd.get(), content.data(), content.size());
    if (n >= 0)
      content.remove_prefix(static_cast<std::size_t>(n));
    else if (errno != EINTR)
      why = std::strerror(errno);
  }
  if (why.empty() && fsync(fd.get()) != 0 && errno != EINVAL) why = std::strerror(errno);
  if (!why.empty()) unlink(path.c_str());
  return why;
}

}  // namespace

std::string bundle_fault(const std::string& path) {
  if (path.empty()) return "a file's name is missing";
  for (const char* end : {".gz", ".tgz", ".xz", ".zst", ".bz2", ".zip"})
    if (path.ends_with(end)) return "the archive is not compressed: give it a name that ends in .tar";
  struct stat there {};
  if (lstat(path.c_str(), &there) == 0) return "it exists already, and is left alone: name another";
  const auto slash = path.rfind('/');
  const auto parent = slash == path.npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  if (access(parent.c_str(), W_OK | X_OK) != 0) return "the folder " + parent + ": " + std::strerror(errno);
  return {};
}

std::string write_bundle(const std::string& path, const doctor_options& options, const doctor_facts& facts,
                         const doctor_report& report) {
  const auto configuration = load(options.given, real_surroundings());
  const auto filter = filter_of(options, facts, configuration);
  std::vector<archived_file> files;
  const auto add = [&](const char* name, const std::string& content) {
    files.push_back({std::string(folder) + name, filter(content)});
  };
  const auto stats = facts.hub ? printable_json(facts.hub->stats) + "\n" : not_here("no hub answers");
  add("doctor.txt", report_text(report, unwrapped, false));
  add("doctor.json", report_json(report) + "\n");
  add("status.json", stats);
  add("config.toml", config_text(configuration));
  add("unit.txt", unit_text(facts));
  add("journal.txt", journal_text(facts));
  add("versions.txt", versions_text(facts));
  add("limits.txt", limits_text(facts));
  add("metrics.txt", metrics_text(configuration));
  files.insert(files.begin(), {std::string(folder) + "README.txt", filter(readme_text(files, facts))});
  return write_new_file(path, tar_archive(files, static_cast<std::uint64_t>(std::time(nullptr))));
}

}  // namespace pgwaked
