#include "daemon/doctor/host.hpp"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>

#include "common/pg/conninfo.hpp"
#include "common/redact.hpp"
#include "daemon/io/socket_file.hpp"

namespace pgwaked {
namespace {

constexpr std::chrono::seconds patience{5};
constexpr std::size_t most_output = 2U << 20U;  // 1000 lines of the journal, each of 1 KiB and more
constexpr int journal_lines = 5;

// What a program of the host says on its standard output; empty if it cannot be run or takes too long.
std::string output_of(std::vector<std::string> arguments) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  const unique_fd reading(ends[0]);
  unique_fd writing(ends[1]);
  std::vector<char*> argv;
  for (auto& each : arguments) argv.push_back(each.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, writing.get(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  std::string path = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
  std::string language = "LC_ALL=C.UTF-8";
  std::array<char*, 3> environment = {path.data(), language.data(), nullptr};
  pid_t child = -1;
  const int error =
      posix_spawn(&child, arguments[0].c_str(), &actions, nullptr, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  writing.reset();
  if (error != 0) return {};
  std::string out;
  const auto until = std::chrono::steady_clock::now() + patience;
  for (std::array<char, 4096> block{}; out.size() < most_output;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    pollfd p{reading.get(), POLLIN, 0};
    if (left.count() <= 0 || poll(&p, 1, static_cast<int>(left.count())) == 0) break;
    const auto n = read(reading.get(), block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    out.append(block.data(), static_cast<std::size_t>(n));
  }
  ::kill(child, SIGKILL);  // it has ended, or has had its time
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return out;
}

}  // namespace

std::vector<std::string> journal_of(const std::string& unit, int lines) {
  std::istringstream journal(
      output_of({"/usr/bin/journalctl", "--unit", unit, "--lines", std::to_string(lines), "--output",
                 "short-iso", "--no-pager", "--quiet"}));
  std::vector<std::string> out;
  for (std::string line; std::getline(journal, line);) out.push_back(pgwake::hide_secrets_in(line, {}));
  return out;
}

std::optional<doctor_facts::unit_look> look_at_unit(const std::string& instance) {
  if (access("/run/systemd/system", F_OK) != 0) return std::nullopt;
  const std::string unit = "pgwaked@" + instance + ".service";
  std::istringstream lines(
      output_of({"/usr/bin/systemctl", "show", "--property",
                 "LoadState,ActiveState,SubState,Result,ExecMainStatus,NRestarts,User", "--", unit}));
  std::map<std::string, std::string> found;
  for (std::string line; std::getline(lines, line);)
    if (const auto equals = line.find('='); equals != line.npos)
      found[line.substr(0, equals)] = line.substr(equals + 1);
  if (found["LoadState"] != "loaded") return std::nullopt;
  doctor_facts::unit_look out;
  out.name = unit;
  out.state = found["ActiveState"] + " (" + found["SubState"] + ")";
  out.active = found["ActiveState"] == "active";
  out.result = found["Result"];
  out.exit_status = found["ExecMainStatus"];
  out.restarts = std::atoll(found["NRestarts"].c_str());
  out.user = found["User"];
  out.journal = journal_of(unit, journal_lines);
  return out;
}

std::string unreadable_for(const std::string& account, const std::string& path) {
  if (geteuid() != 0 || path.empty() || access(path.c_str(), F_OK) != 0) return {};
  const auto* entry = getpwnam(account.c_str());
  if (entry == nullptr) return {};
  const auto gid = entry->pw_gid;
  const auto uid = entry->pw_uid;
  // As the account itself: mode, groups, access control lists and every folder on the way count.
  const pid_t child = fork();
  if (child < 0) return {};
  if (child == 0) {
    if (initgroups(account.c_str(), gid) != 0 || setgid(gid) != 0 || setuid(uid) != 0) _exit(0);
    _exit(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC) >= 0 ? 0 : errno);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) != 0 ? std::strerror(WEXITSTATUS(status)) : "";
}

std::string passfile_of(const std::string& conninfo) {
  if (const auto named = pgwake::pg::value_in(conninfo, "passfile")) return *named;
  if (const char* variable = std::getenv("PGPASSFILE"); variable != nullptr && *variable != '\0')
    return variable;
  const char* home = std::getenv("HOME");
  return home != nullptr && *home != '\0' ? std::string(home) + "/.pgpass" : "";
}

}  // namespace pgwaked
