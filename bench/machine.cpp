#include "bench/machine.hpp"

#include <libpq-fe.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>

namespace pgwake::bench {
namespace {

std::string processor() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

std::string first_line_of(const char* command) {
  std::array<char, 256> line{};
  FILE* out = popen(command, "r");
  if (out == nullptr) return "";
  const char* got = fgets(line.data(), line.size(), out);
  pclose(out);
  std::string text = got != nullptr ? got : "";
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

machine describe_machine() {
  utsname system{};
  uname(&system);
  const auto cores = sysconf(_SC_NPROCESSORS_ONLN);
  const auto gib = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE)) /
                   (1024.0 * 1024 * 1024);
  std::array<char, 32> memory{};
  std::snprintf(memory.data(), memory.size(), "%.0f GiB", gib);
  const auto postgres = first_line_of("pg_config --version 2>/dev/null");
  const auto redis = first_line_of("redis-server --version 2>/dev/null | cut -d' ' -f1-3");
  const auto nats = first_line_of("nats-server --version 2>/dev/null");
  machine out;
  out.text = std::to_string(cores) + " cores of " + processor() + ", " + memory.data() + ", Linux " +
             system.release + "; " + postgres + ", libpq " + std::to_string(PQlibVersion() / 10000) +
             (redis.empty() ? "" : ", " + redis) + (nats.empty() ? "" : ", " + nats);
  out.json = "{\"processor\":\"" + processor() + "\",\"cores\":" + std::to_string(cores) + ",\"memory\":\"" +
             memory.data() + "\",\"kernel\":\"" + system.release + "\",\"postgresql\":\"" + postgres +
             "\",\"redis\":\"" + redis + "\",\"nats\":\"" + nats + "\"}";
  return out;
}

}  // namespace pgwake::bench
