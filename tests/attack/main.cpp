// Plays attacks against hubs with default settings, and says of each whether it held. scripts/attack runs it.
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "attack/attack.hpp"
#include "attack/judge.hpp"

namespace {

using namespace pgwake::attack;

int usage() {
  std::fputs("usage: attack [--quick] [--list] [--tries N] [NAME...]\n", stderr);
  return 2;
}

struct choice {
  bool quick = false;
  int tries = 1;
  std::vector<std::string> names{};

  bool wants(const char* name, bool in_short_form) const {
    for (const auto& n : names)
      if (n == name) return true;
    return names.empty() && (!quick || in_short_form);
  }
};

std::vector<attack> attacks() {
  std::vector<attack> all;
  for (const auto* group : {&socket_attacks(), &flood_attacks(), &role_attacks()})
    all.insert(all.end(), group->begin(), group->end());
  return all;
}

std::vector<deception> deceptions() {
  auto all = false_servers();
  all.insert(all.end(), false_hubs().begin(), false_hubs().end());
  return all;
}

void say(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

// A machine that is busy with something else may spoil a figure, never all of `tries`.
outcome best(const attack& a, const choice& c) {
  using namespace std::chrono_literals;
  outcome o;
  for (int i = 0; i < c.tries; ++i) {
    o = judge(a, c.quick ? 700ms : 1'500ms, c.quick ? 2'000ms : 3'000ms);
    if (o.faults.empty()) break;
  }
  return o;
}

int run(const choice& c) {
  int held = 0;
  int broken = 0;
  const auto count = [&](bool good) { ++(good ? held : broken); };
  say(table_head());
  for (const auto& a : attacks()) {
    if (!c.wants(a.name, a.quick)) continue;
    const auto o = best(a, c);
    say(table_row(a, o));
    count(o.faults.empty());
  }
  say("\n| deception | by | what | |\n| --- | --- | --- | --- |\n");
  for (const auto& d : deceptions()) {
    if (!c.wants(d.name, d.quick)) continue;
    std::string fault;
    for (int i = 0; i < c.tries && (i == 0 || !fault.empty()); ++i) {
      try {
        fault = d.play();
      } catch (const std::exception& e) {
        fault = e.what();
      }
    }
    say(std::string("| ") + d.name + " | " + d.who + " | " + d.about + " | " +
        (fault.empty() ? "held" : fault) + " |\n");
    count(fault.empty());
  }
  say("\n" + std::to_string(held) + " held, " + std::to_string(broken) + " did not\n");
  return broken == 0 && held > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  choice c;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--quick") {
      c.quick = true;
    } else if (word == "--list") {
      for (const auto& a : attacks()) std::printf("%-22s %-14s %s\n", a.name, a.who, a.about);
      for (const auto& d : deceptions()) std::printf("%-22s %-14s %s\n", d.name, d.who, d.about);
      return 0;
    } else if (word == "--tries" && i + 1 < argc) {
      c.tries = std::atoi(argv[++i]);
    } else if (word.rfind("-", 0) == 0) {
      return usage();
    } else {
      c.names.push_back(word);
    }
  }
  try {
    return run(c);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "attack: %s\n", e.what());
    return 1;
  }
}
