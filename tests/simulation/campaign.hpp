#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <iostream>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "simulation/tally.hpp"

namespace pgwake::simulation {

// Many runs of one kind of world, and what is said of them. A world has plan(seed), a constructor from (seed,
// tally, tracing), run(operations), trace(), and its part of the rare events.

struct options {
  std::uint64_t first = 1;
  std::uint64_t seeds = 1'000;
  std::optional<double> seconds;
  std::optional<std::uint64_t> replay;
  unsigned threads = std::max(1U, std::thread::hardware_concurrency());
  bool rare = true;
  bool brief = false;
};

[[noreturn]] inline void usage() {
  std::cerr << "usage: simulation [--seeds N] [--first N] [--seconds S] [--threads N] [--no-rare] [--brief] "
               "[--seed N]\n\n"
               "  --seeds N     so many runs (default 1000), beginning with seed --first (default 1)\n"
               "  --seconds S   runs for so long instead\n"
               "  --no-rare     do not fail because a rare event was never reached\n"
               "  --seed N      this run alone, with its whole trace\n";
  std::exit(2);
}

inline options parse(int argc, char** argv) {
  options o;
  for (int i = 1; i < argc; ++i) {
    const auto is = [&](const char* name) { return std::strcmp(argv[i], name) == 0; };
    if (is("--no-rare") || is("--brief")) {
      (is("--brief") ? o.brief : o.rare) = is("--brief");
      continue;
    }
    if (i + 1 >= argc) usage();
    const std::string value = argv[i + 1];
    if (is("--seeds"))
      o.seeds = std::stoull(value);
    else if (is("--first"))
      o.first = std::stoull(value);
    else if (is("--seconds"))
      o.seconds = std::stod(value);
    else if (is("--threads"))
      o.threads = std::max(1U, static_cast<unsigned>(std::stoul(value)));
    else if (is("--seed"))
      o.replay = std::stoull(value);
    else
      usage();
    ++i;
  }
  return o;
}

struct outcome {
  std::optional<std::string> broken;
  std::vector<std::string> trace;
};

template <typename World>
outcome run(std::uint64_t seed, const std::vector<typename World::operation>& operations, tally& counts,
            bool tracing) {
  outcome out;
  World w(seed, counts, tracing);
  try {
    w.run(operations);
  } catch (const std::exception& e) {
    out.broken = e.what();
  }
  out.trace = w.trace();
  return out;
}

// The promise that was broken, as far as it does not depend on numbers.
inline std::string kind_of(const std::string& what) {
  std::string out;
  for (const char c : what)
    if (c < '0' || c > '9') out += c;
  return out.substr(0, 24);
}

// Takes operations out as long as the same promise stays broken.
template <typename World>
std::vector<typename World::operation> shrink(std::uint64_t seed,
                                              std::vector<typename World::operation> operations,
                                              const std::string& what) {
  tally ignored;
  int budget = 2'000;
  for (auto size = operations.size() / 2; size > 0; size /= 2) {
    for (std::size_t at = 0; at < operations.size() && budget > 0;) {
      auto fewer = operations;
      const auto from = fewer.begin() + static_cast<std::ptrdiff_t>(at);
      fewer.erase(from, from + static_cast<std::ptrdiff_t>(std::min(size, fewer.size() - at)));
      --budget;
      const auto result = run<World>(seed, fewer, ignored, false);
      if (result.broken && kind_of(*result.broken) == kind_of(what))
        operations = std::move(fewer);
      else
        at += size;
    }
  }
  return operations;
}

template <typename World>
void explain(std::uint64_t seed, const std::string& what) {
  tally ignored;
  const auto small = shrink<World>(seed, World::plan(seed), what);
  const auto result = run<World>(seed, small, ignored, true);
  std::cout << "\nseed " << seed << ": " << what << "\n\nmade small (" << small.size() << " operations):\n";
  const std::size_t most = 150;
  if (result.trace.size() > most) std::cout << "  ...\n";
  for (auto i = result.trace.size() > most ? result.trace.size() - most : 0; i < result.trace.size(); ++i)
    std::cout << "  " << result.trace[i] << '\n';
  std::cout << "  => " << result.broken.value_or("(does not fail when traced)")
            << "\n\nreplay it with: " << World::program << " --seed " << seed << '\n';
}

template <typename World>
int replay(std::uint64_t seed) {
  tally counts;
  const auto result = run<World>(seed, World::plan(seed), counts, true);
  for (const auto& line : result.trace) std::cout << line << '\n';
  if (!result.broken) {
    std::cout << "seed " << seed << ": every promise held\n";
    return 0;
  }
  std::cout << "=> " << *result.broken << '\n';
  explain<World>(seed, *result.broken);
  return 1;
}

// Seeds are handed out one by one, so that which runs there are does not depend on the threads.
template <typename World>
struct campaign {
  const options& o;
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
  std::atomic<std::uint64_t> next{o.first};
  std::atomic<bool> stop{false};
  std::mutex mutex;
  tally counts;
  std::optional<std::pair<std::uint64_t, std::string>> failure;

  explicit campaign(const options& with) : o(with) {}

  double elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  }

  void work() {
    tally mine;
    while (!stop) {
      const auto seed = next++;
      if (o.seconds ? elapsed() > *o.seconds : seed >= o.first + o.seeds) break;
      const auto result = run<World>(seed, World::plan(seed), mine, false);
      if (!result.broken) continue;
      const std::lock_guard lock(mutex);
      stop = true;
      if (!failure || seed < failure->first) failure = {seed, *result.broken};
    }
    const std::lock_guard lock(mutex);
    counts.add(mine);
  }
};

template <typename World>
int campaign_main(int argc, char** argv) {
  const auto o = parse(argc, argv);
  if (o.replay) return replay<World>(*o.replay);
  campaign<World> c(o);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < o.threads; ++i) threads.emplace_back([&c] { c.work(); });
  for (auto& t : threads) t.join();
  if (c.failure && o.brief) {
    std::cout << "seed " << c.failure->first << ": " << c.failure->second << '\n';
    return 1;
  }
  if (c.failure) {
    explain<World>(c.failure->first, c.failure->second);
    return 1;
  }
  std::cout << c.counts.seeds << " seeds in " << static_cast<int>(c.elapsed() * 10) / 10.0
            << " s: " << c.counts.operations << " operations, " << c.counts.notifications
            << " notifications, " << c.counts.frames << " frames received; every promise held\n";
  bool missing = false;
  for (auto i = World::rare_from; i < World::rare_to; ++i) {
    std::cout << (c.counts.times[i] == 0 ? "  NEVER " : "        ") << c.counts.times[i] << "  "
              << rare_names[i] << '\n';
    missing = missing || c.counts.times[i] == 0;
  }
  if (missing && o.rare) {
    std::cout << "a rare event was never reached: the runs prove nothing about it\n";
    return 1;
  }
  return 0;
}

}  // namespace pgwake::simulation
