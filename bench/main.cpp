#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "bench/machine.hpp"
#include "bench/scenario.hpp"

using namespace pgwake::bench;

namespace {

struct arguments {
  bool quick = false;
  bool keep = false;
  std::size_t repetitions = 0;
  std::string directory = "build/bench";
  std::string lock;
  std::string only;
  std::vector<std::string> names;
};

bool wanted(const arguments& a, const char* name) {
  return a.names.empty() || std::find(a.names.begin(), a.names.end(), name) != a.names.end();
}

// 1,000 workers and as many sessions are sockets of this one process.
void raise_descriptor_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int run(const arguments& a) {
  std::filesystem::create_directories(a.directory);
  raise_descriptor_limit();
  const auto where = describe_machine();
  std::printf("%s\n%s\n\n", where.text.c_str(),
              "Medians over the repetitions of one run, lowest..highest in brackets; only the ratios mean "
              "something.");
  report out(a.directory);
  gate lock(a.lock);
  world servers;
  context c{servers, out,   lock, a.quick, a.repetitions != 0 ? a.repetitions : a.quick ? 2U : 5U,
            a.keep,  a.only};
  for (const auto& s : scenarios()) {
    if (!wanted(a, s.name)) continue;
    const auto begin = steady::now();
    s.run(c);
    out.write(s.name, where.json);
    std::printf("  (%.0f s)\n", since(begin));
  }
  return out.summarize() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  arguments a;
  CLI::App app("Measures pgwake beside what people would use instead. Exit code 0: every bar is met, 1: not");
  app.add_flag("--quick", a.quick, "only the cells with a bar, two pairs each");
  app.add_flag("--keep-instructions", a.keep, "write bench/instructions.txt anew");
  app.add_option("--repetitions", a.repetitions, "pairs of repetitions [5, quick: 2]");
  app.add_option("--out", a.directory, "where the JSON files and plots go [build/bench]");
  app.add_option("--only", a.only, "only the cells of which this text is part, such as '8 receivers'");
  app.add_option("--lock", a.lock, "a lock file to hold while measuring, so that builds that take it wait");
  std::string list = "which to run [all]:";
  std::vector<std::string> known;
  for (const auto& s : scenarios()) {
    known.emplace_back(s.name);
    list += std::string("\n  ") + s.name + ": " + s.about;
  }
  app.add_option("scenario", a.names, list)->check(CLI::IsMember(known));
  CLI11_PARSE(app, argc, argv);
  try {
    return run(a);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench: %s\n", e.what());
    return 2;
  }
}
