#include "support/process.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "support/eventually.hpp"
#include "support/files.hpp"
#include "support/programs.hpp"

extern char** environ;

namespace pgwake::test {
namespace {

int anonymous_file(const char* name) {
  const int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd < 0) throw_errno("memfd_create");
  return fd;
}

std::vector<std::string> environment_of(const process_options& options) {
  std::vector<std::string> result;
  const auto overridden = [&](std::string_view name) {
    const auto same = [&](const auto& entry) { return entry.first == name; };
    return std::any_of(options.env.begin(), options.env.end(), same) ||
           std::find(options.unset.begin(), options.unset.end(), name) != options.unset.end();
  };
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!overridden(text.substr(0, text.find('=')))) result.emplace_back(text);
  }
  for (const auto& [name, value] : options.env) result.push_back(name + "=" + value);
  return result;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (auto& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// Everything the child needs, prepared before fork: afterwards only async-signal-safe calls are allowed.
struct launch {
  process_options& options;
  std::vector<std::string> env_texts = environment_of(options);
  std::vector<char*> argv{};
  std::vector<char*> env = pointers_to(env_texts);
  uid_t uid = 0;
  gid_t gid = 0;
  int input = -1;
  pid_t parent = getpid();

  explicit launch(process_options& o) : options(o) {
    if (!options.account.empty()) {
      const passwd* entry = getpwnam(options.account.c_str());
      if (entry == nullptr) throw std::runtime_error("there is no user " + options.account);
      uid = entry->pw_uid;
      gid = entry->pw_gid;
      if (options.argv[0].find('/') != std::string::npos) options.argv[0] = for_every_user(options.argv[0]);
    }
    argv = pointers_to(options.argv);
    input = options.input.empty() ? open("/dev/null", O_RDONLY | O_CLOEXEC) : anonymous_file("stdin");
    if (!options.input.empty()) {
      if (write(input, options.input.data(), options.input.size()) < 0) throw_errno("write stdin");
      lseek(input, 0, SEEK_SET);
    }
  }
  launch(const launch&) = delete;
  launch& operator=(const launch&) = delete;
  ~launch() { close(input); }
};

[[noreturn]] void become(const launch& job, int out, int err) {
  const auto fail = [](const char* what) {
    const char* reason = strerror(errno);
    (void)!write(2, what, strlen(what));
    (void)!write(2, ": ", 2);
    (void)!write(2, reason, strlen(reason));
    _exit(127);
  };
  setpgid(0, 0);
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(job.input, 0);
  dup2(out, 1);
  dup2(err, 2);
  for (const auto& pair : job.options.descriptors) {
    if (pair.first == pair.second)
      fcntl(pair.first, F_SETFD, 0);
    else
      dup2(pair.first, pair.second);
  }
  if (job.options.mask) umask(*job.options.mask);
  if (job.options.max_descriptors) {
    const rlimit limit{*job.options.max_descriptors, *job.options.max_descriptors};
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  if (!job.options.account.empty() &&
      (setgroups(1, &job.gid) != 0 || setgid(job.gid) != 0 || setuid(job.uid) != 0))
    fail("change of user");
  prctl(PR_SET_PDEATHSIG, job.options.death_signal);  // after setuid, which would clear it
  if (getppid() != job.parent) _exit(127);            // it died before that
  if (!job.options.directory.empty() && chdir(job.options.directory.c_str()) != 0) fail("chdir");
  environ = const_cast<char**>(job.env.data());
  execvp(job.argv[0], job.argv.data());
  fail(job.argv[0]);
  _exit(127);
}

}  // namespace

process::process(process_options options) : out_(anonymous_file("stdout")), err_(anonymous_file("stderr")) {
  for (const int fd : {out_, err_}) fcntl(fd, F_SETFL, O_APPEND);
  const launch job(options);
  pid_ = fork();
  if (pid_ < 0) throw_errno("fork");
  if (pid_ == 0) become(job, out_, err_);
}

process::process(process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      out_(std::exchange(other.out_, -1)),
      err_(std::exchange(other.err_, -1)),
      exit_(std::exchange(other.exit_, std::nullopt)) {}

process::~process() {
  if (pid_ > 0) {
    if (!exit_) {
      ::kill(pid_, SIGKILL);
      wait(std::chrono::seconds(30));
    }
    ::kill(-pid_, SIGKILL);  // what it left behind
    waitpid(pid_, nullptr, WNOHANG);
  }
  for (const int fd : {out_, err_})
    if (fd >= 0) close(fd);
}

bool process::running() { return !wait(milliseconds(0)); }

std::optional<int> process::wait(milliseconds patience) {
  if (exit_) return exit_;
  // It is not reaped before the destructor has killed its group: until then nobody else can get its number,
  // and with it that signal.
  eventually(patience, [&] {
    siginfo_t ended{};
    if (waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        ended.si_pid != pid_)
      return false;
    exit_ = ended.si_code == CLD_EXITED ? ended.si_status : 128 + ended.si_status;
    return true;
  });
  return exit_;
}

void process::signal(int number) {
  if (pid_ <= 0) throw std::logic_error("a signal to no process");  // 0 and -1 are everybody
  if (running() && ::kill(pid_, number) != 0) throw_errno("kill");
}

std::string process::read_all(int fd) {
  std::string text;
  struct stat info {};
  fstat(fd, &info);
  text.resize(static_cast<std::size_t>(info.st_size));
  const ssize_t got = pread(fd, text.data(), text.size(), 0);
  text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return text;
}

bool process::wait_for(int fd, std::string_view text, milliseconds patience) {
  const auto found = [&] { return read_all(fd).find(text) != std::string::npos; };
  eventually(patience, [&] { return found() || !running(); });
  return found();
}

bool process::wait_for_out(std::string_view text, milliseconds patience) {
  return wait_for(out_, text, patience);
}
bool process::wait_for_err(std::string_view text, milliseconds patience) {
  return wait_for(err_, text, patience);
}

milliseconds process::cpu_time() const {
  const std::string stat = read_file("/proc/" + std::to_string(pid_) + "/stat");
  // The name in parentheses may hold anything; fields 14 and 15 are user and system ticks, the first after it
  // is 3.
  std::istringstream fields(stat.substr(stat.rfind(')') + 2));
  std::string skipped;
  for (int field = 3; field < 14; ++field) fields >> skipped;
  long user = 0;
  long system = 0;
  fields >> user >> system;
  return milliseconds((user + system) * 1000 / sysconf(_SC_CLK_TCK));
}

long process::status_field(std::string_view name) const {
  std::istringstream lines(read_file("/proc/" + std::to_string(pid_) + "/status"));
  for (std::string line; std::getline(lines, line);)
    if (line.compare(0, name.size(), name) == 0) return std::stol(line.substr(name.size() + 1));
  throw std::runtime_error("no " + std::string(name) + " in /proc status");
}

long process::rss_kib() const { return status_field("VmRSS"); }
int process::thread_count() const { return static_cast<int>(status_field("Threads")); }

void process::wait_for_sleep(std::string_view thread, milliseconds patience) const {
  const auto tasks = "/proc/" + std::to_string(pid_) + "/task";
  // `TID (NAME) STATE ...`: S sleeps.
  const auto works = [&](const std::filesystem::path& task) {
    std::ifstream file(task / "stat");
    std::string stat;
    std::getline(file, stat);
    const auto name = "(" + std::string(thread) + ") ";
    const auto at = stat.find(name);
    return at != std::string::npos && stat.compare(at + name.size(), 1, "S") != 0;
  };
  eventually(patience, [&] {
    std::error_code gone;
    for (std::filesystem::directory_iterator at(tasks, gone), end; !gone && at != end; at.increment(gone))
      if (works(at->path())) return false;
    return true;
  });
}

int process::descriptor_count() const {
  DIR* directory = opendir(("/proc/" + std::to_string(pid_) + "/fd").c_str());
  if (directory == nullptr) throw_errno("descriptors of a process");
  int count = 0;
  while (const dirent* entry = readdir(directory)) count += entry->d_name[0] != '.';
  closedir(directory);
  return count;
}

run_result run(process_options options, milliseconds patience) {
  const std::string name = options.argv.front();
  process child(std::move(options));
  const auto code = child.wait(patience);
  if (!code)
    throw std::runtime_error(name + " still runs after " + std::to_string(patience.count()) + " ms\n" +
                             child.out() + child.err());
  return {*code, child.out(), child.err()};
}

std::string run_ok(process_options options, milliseconds patience) {
  const std::string name = options.argv.front();
  auto result = run(std::move(options), patience);
  if (result.exit_code != 0)
    throw std::runtime_error(name + " failed with " + std::to_string(result.exit_code) + "\n" + result.out +
                             result.err);
  return std::move(result.out);
}

}  // namespace pgwake::test
