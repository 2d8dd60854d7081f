#pragma once

#include <string>
#include <string_view>

namespace pgwake::test {

/// A directory /tmp/pgw-XXXXXX (short: a Unix socket's path has 107 bytes), mode 0755. Removed at
/// destruction, and, should this process die first, by a small process that outlives it.
class temp_dir {
 public:
  temp_dir();
  temp_dir(temp_dir&& other) noexcept;
  temp_dir& operator=(temp_dir&&) = delete;
  ~temp_dir();

  const std::string& path() const { return path_; }
  /// PATH/name
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

/// A TCP port that nothing listens to, below the range of outgoing connections, and that no other test
/// process is given while this one lives.
int random_port();

std::string read_file(const std::string& path);
void write_file(const std::string& path, std::string_view content, unsigned mode = 0644);

/// Throws std::runtime_error with "WHAT: strerror(errno)".
[[noreturn]] void throw_errno(const std::string& what);

/// The account that PostgreSQL and PgBouncer run as: they refuse root, so root becomes `postgres`; otherwise
/// empty, which means "as myself".
std::string server_account();
/// Gives a file or directory (not its contents) to server_account().
void give_to_server(const std::string& path);

}  // namespace pgwake::test
