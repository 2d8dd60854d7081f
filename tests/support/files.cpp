#include "support/files.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace pgwake::test {
namespace {

// Reads directory names until this process is gone, then removes them, once whatever still writes there has
// ended.
constexpr const char* reaper_script = R"(
dirs=
while read -r dir; do dirs="$dirs $dir"; done
for attempt in 1 2 3 4 5 6 7 8 9 10; do
  left=
  for dir in $dirs; do [ -d "$dir" ] && left="$left $dir"; done
  [ -z "$left" ] && exit 0
  sleep 0.5
  rm -rf $left
done 2>/dev/null)";

int start_reaper() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw_errno("pipe");
  const pid_t pid = fork();
  if (pid < 0) throw_errno("fork");
  if (pid == 0) {
    // A session of its own: Ctrl-C and a test runner's timeout must not reach it.
    if (setsid() < 0) _exit(126);
    if (fork() != 0) _exit(0);
    const int null = open("/dev/null", O_RDWR);
    dup2(ends[0], 0);
    dup2(null, 1);
    dup2(null, 2);
    for (int fd = 3; fd < 256; ++fd) close(fd);
    execl("/bin/sh", "sh", "-c", reaper_script, static_cast<char*>(nullptr));
    _exit(126);
  }
  close(ends[0]);
  return ends[1];
}

void remember_for_reaper(const std::string& path) {
  static std::mutex mutex;
  static int reaper = -1;
  const std::lock_guard lock(mutex);
  if (reaper < 0) reaper = start_reaper();
  const std::string line = path + "\n";
  if (write(reaper, line.data(), line.size()) < 0) throw_errno("write to the reaper");
}

bool reserve(int port) {
  const int guard = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (guard < 0) throw_errno("socket");
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::string text = "pgwake-test-port-" + std::to_string(port);
  std::memcpy(name.sun_path + 1, text.data(), text.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  if (bind(guard, reinterpret_cast<const sockaddr*>(&name), length) == 0) return true;  // held until exit
  close(guard);
  return false;
}

bool nothing_listens(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) throw_errno("socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool free = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return free;
}

}  // namespace

void throw_errno(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

temp_dir::temp_dir() {
  char name[] = "/tmp/pgw-XXXXXX";
  if (mkdtemp(name) == nullptr) throw_errno("mkdtemp");
  path_ = name;
  chmod(name, 0755);
  remember_for_reaper(path_);
}

temp_dir::temp_dir(temp_dir&& other) noexcept : path_(std::exchange(other.path_, {})) {}

temp_dir::~temp_dir() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

int random_port() {
  static std::mt19937 random{std::random_device{}()};
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::uniform_int_distribution<int> ports(15000, 32000);
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const int port = ports(random);
    if (nothing_listens(port) && reserve(port)) return port;
  }
  throw std::runtime_error("no free TCP port found");
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw_errno("cannot read " + path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void write_file(const std::string& path, std::string_view content, unsigned mode) {
  {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out.write(content.data(), static_cast<std::streamsize>(content.size()));
    if (!out.flush()) throw_errno("cannot write " + path);
  }
  if (chmod(path.c_str(), mode) != 0) throw_errno("chmod " + path);
}

std::string server_account() { return geteuid() == 0 ? "postgres" : ""; }

void give_to_server(const std::string& path) {
  const std::string account = server_account();
  if (account.empty()) return;
  const passwd* entry = getpwnam(account.c_str());
  if (entry == nullptr) throw std::runtime_error("there is no user " + account);
  if (lchown(path.c_str(), entry->pw_uid, entry->pw_gid) != 0) throw_errno("chown " + path);
}

}  // namespace pgwake::test
