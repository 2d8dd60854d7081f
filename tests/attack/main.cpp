// Plays attacks against hubs with default settings, and says of each whether it held. scripts/attack runs it.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "attack/attack.hpp"
#include "attack/judge.hpp"
#include "support/cluster.hpp"

namespace {

using namespace pgwake::attack;

int usage() {
  std::fputs("usage: attack [--quick] [--list] [--tries N] [--document FILE] [NAME...]\n", stderr);
  return 2;
}

struct choice {
  bool quick = false;
  int tries = 1;
  std::string document{};  ///< where the tables are written to
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

// What was printed, and how often it was good.
struct report {
  std::string attacks = attacks_head();
  std::string deceptions = deceptions_head();
  int held = 0;
  int broken = 0;

  void add(std::string& table, const std::string& row, bool good) {
    say(row);
    table += row;
    ++(good ? held : broken);
  }
};

// A machine that is busy with something else may spoil a figure, never all of `tries`.
void play(const attack& a, const choice& c, report& r) {
  using namespace std::chrono_literals;
  outcome o;
  for (int i = 1; i <= c.tries; ++i) {
    try {
      o = judge(a, c.quick ? 700ms : 1'500ms, c.quick ? 2'000ms : 3'000ms);
    } catch (const std::exception& e) {
      o = {};
      o.faults.emplace_back(e.what());
    }
    o.tries = i;
    if (o.faults.empty()) break;
    if (i < c.tries) std::fputs(("again: " + attack_row(a, o)).c_str(), stderr);
  }
  r.add(r.attacks, attack_row(a, o), o.faults.empty());
}

void play(const deception& d, const choice& c, report& r) {
  std::string fault;
  int tries = 0;
  do {
    try {
      fault = d.play();
    } catch (const std::exception& e) {
      fault = e.what();
    }
    if (++tries < c.tries && !fault.empty())
      std::fputs(("again: " + deception_row(d, fault, tries)).c_str(), stderr);
  } while (tries < c.tries && !fault.empty());
  r.add(r.deceptions, deception_row(d, fault, tries), fault.empty());
}

std::string first_line(const std::string& file) {
  std::string line;
  std::ifstream in(file);
  std::getline(in, line);
  return line;
}

// One, five and fifteen minutes.
std::string load_averages() {
  std::string all;
  std::istringstream words(first_line("/proc/loadavg"));
  std::string word;
  for (int i = 0; i < 3 && words >> word; ++i) all += (i ? ", " : "") + word;
  return all;
}

std::string today() {
  char text[sizeof "2000-01-01"];
  const auto now = std::time(nullptr);
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

constexpr std::string_view heading = "## Under attack";

std::string section(const report& r, const std::string& load_before) {
  return std::string(heading) +
         "\n\n`scripts/attack` plays these against hubs with default settings and against the library; "
         "[testing.md](testing.md#attacks)\nsays how, and when one counts as held. What stands in front of an "
         "arrow was measured before the attack, what stands behind it\nduring it. \"processor\" is how much of "
         "the time that hub and backend were ready to run they did run; the rest they waited for a\nprocessor.\n\n"
         "One run of " +
         today() + ", pgwaked " PGWAKE_VERSION_STRING ", PostgreSQL " +
         pgwake::test::cluster::shared().value(
             "SELECT split_part(current_setting('server_version'), ' ', 1)") +
         ", " + std::to_string(sysconf(_SC_NPROCESSORS_ONLN)) +
         " processors, which the attackers share with hub,\nserver and workers. Load averages (1, 5, 15 minutes) "
         "before the run: " +
         load_before + "; at its end, the run's own\nload among it: " + load_averages() + ". " +
         std::to_string(r.held) + " of " + std::to_string(r.held + r.broken) + " held.\n\n" + r.attacks +
         "\n" + r.deceptions + "\n";
}

void write_into(const std::string& file, const std::string& text) {
  std::ifstream in(file);
  std::ostringstream old;
  if (!(old << in.rdbuf())) throw std::runtime_error("cannot read " + file);
  const auto whole = with_section(old.str(), heading, "## By proof", text);
  std::ofstream out(file, std::ios::trunc);
  if (!(out << whole << std::flush)) throw std::runtime_error("cannot write " + file);
}

int run(const choice& c) {
  const auto load_before = load_averages();
  report r;
  say(attacks_head());
  for (const auto& a : attacks())
    if (c.wants(a.name, a.quick)) play(a, c, r);
  say("\n" + deceptions_head());
  for (const auto& d : deceptions())
    if (c.wants(d.name, d.quick)) play(d, c, r);
  say("\n" + std::to_string(r.held) + " held, " + std::to_string(r.broken) + " did not\n");
  const bool good = r.broken == 0 && r.held > 0;
  if (good && !c.document.empty()) write_into(c.document, section(r, load_before));
  if (!good && !c.document.empty()) say(c.document + " is left as it was: not all of them held\n");
  return good ? 0 : 1;
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
    } else if (word == "--document" && i + 1 < argc) {
      c.document = argv[++i];
    } else if (word.rfind("-", 0) == 0) {
      return usage();
    } else {
      c.names.push_back(word);
    }
  }
  // A document has the figures of all of them.
  if (c.tries < 1 || (!c.document.empty() && (c.quick || !c.names.empty()))) return usage();
  try {
    return run(c);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "attack: %s\n", e.what());
    return 1;
  }
}
