#include "bench/process_memory.hpp"

#include <fstream>
#include <stdexcept>

namespace pgwake::bench {

double field_kib(const std::string& path, const std::string& name) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);)
    if (line.rfind(name, 0) == 0) return std::stod(line.substr(name.size()));
  throw std::runtime_error(path + " has no " + name);
}

double resident_kib(pid_t pid) { return field_kib("/proc/" + std::to_string(pid) + "/status", "VmRSS:"); }

}  // namespace pgwake::bench
