#include "support/programs.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <map>
#include <mutex>

#include "support/files.hpp"

namespace pgwake::test {
namespace {

bool open_to_others(const std::filesystem::path& path, mode_t wanted) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && (info.st_mode & wanted) == wanted;
}

bool every_user_may_run(const std::filesystem::path& program) {
  if (!open_to_others(program, S_IROTH | S_IXOTH)) return false;
  for (auto folder = program.parent_path(); folder != folder.root_path(); folder = folder.parent_path())
    if (!open_to_others(folder, S_IXOTH)) return false;
  return true;
}

}  // namespace

std::string for_every_user(const std::string& program) {
  const auto path = std::filesystem::absolute(program);
  if (!std::filesystem::exists(path) || every_user_may_run(path)) return program;
  static std::mutex mutex;
  static temp_dir folder;
  static std::map<std::string, std::string> copies;
  const std::lock_guard lock(mutex);
  auto& copy = copies[path];
  if (copy.empty()) {
    const auto place = folder / std::to_string(copies.size());
    std::filesystem::create_directory(place);
    chmod(place.c_str(), 0755);
    const auto target = place + "/" + path.filename().string();
    std::filesystem::copy_file(path, target);
    chmod(target.c_str(), 0755);
    copy = target;
  }
  return copy;
}

}  // namespace pgwake::test
