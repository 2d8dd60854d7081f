#include "attack/verdict.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <stdexcept>

namespace pgwake::attack {
namespace {

constexpr std::size_t mib = 1U << 20U;
constexpr double worst_growth = 5;     // of others' p99
constexpr double quick_enough_ms = 4;  // below that a growth says nothing
constexpr double patient_ack_ms = 1'000;
constexpr double resident_per_counted = 1.5;
constexpr std::size_t resident_slack = 24 * mib;  // the allocator's, and connections by themselves
constexpr std::size_t most_log = mib;
constexpr double worst_stretch = 4;

std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), value < 10 ? "%.2f" : "%.0f", value);
  return text.data();
}

// What stands in the last column.
std::string result(const std::vector<std::string>& faults, int tries) {
  if (faults.empty()) return tries == 1 ? "held" : "held at try " + std::to_string(tries);
  std::string all;
  for (const auto& f : faults) all += (all.empty() ? "" : "; ") + f;
  return all;
}

}  // namespace

double stretch(const processor_time& t) {
  if (t.ran_ms <= 0) return 1;
  return std::clamp((t.ran_ms + t.waited_ms) / t.ran_ms, 1.0, worst_stretch);
}

std::vector<std::string> faults_of(const outcome& o) {
  std::vector<std::string> faults;
  const auto longer = stretch(o.served);
  const auto bar = worst_growth * std::max({o.p99_before_ms, o.direct_p99_ms, quick_enough_ms}) * longer;
  if (o.p99_ms > bar) faults.push_back("others' p99 is " + number(o.p99_ms) + " ms, at most " + number(bar));
  if (o.p99_ms == 0) faults.emplace_back("others got no wake");
  if (o.ack_ms > std::max(patient_ack_ms, worst_growth * o.direct_p99_ms) * longer)
    faults.push_back("an innocent sub waited " + number(o.ack_ms) + " ms");
  const auto held =
      resident_per_counted * static_cast<double>(o.counted) + static_cast<double>(resident_slack);
  if (static_cast<double>(o.resident) > held)
    faults.push_back("resident " + std::to_string(o.resident / mib) + " MiB, counted " +
                     std::to_string(o.counted / mib));
  if (o.lost) faults.push_back(std::to_string(o.lost) + " lost without a gap");
  if (o.doubled) faults.push_back(std::to_string(o.doubled) + " doubled");
  if (o.gaps) faults.push_back(std::to_string(o.gaps) + " gaps: the session did not last");
  if (o.fallen) faults.push_back(std::to_string(o.fallen) + " innocent workers refused or cut off");
  if (o.log_bytes > most_log) faults.push_back(std::to_string(o.log_bytes / 1024) + " KiB of log");
  return faults;
}

std::string attacks_head() {
  return "| attack | by | what | wake p50, ms | p99, ms | direct p99, ms | processor, % | slowest ack, ms | "
         "resident / counted, MiB | lost, doubled, cut off | log, KiB | |\n"
         "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
}

std::string attack_row(const attack& a, const outcome& o) {
  const auto whole = o.served.ran_ms + o.served.waited_ms;
  return std::string("| ") + a.name + " | " + a.who + " | " + a.about + " | " + number(o.p50_before_ms) +
         " → " + number(o.p50_ms) + " | " + number(o.p99_before_ms) + " → " + number(o.p99_ms) + " | " +
         number(o.direct_p99_ms) + " | " + number(whole > 0 ? 100 * o.served.ran_ms / whole : 100) + " | " +
         number(o.ack_ms) + " | " + std::to_string(o.resident / mib) + " / " +
         std::to_string(o.counted / mib) + " | " + std::to_string(o.lost) + ", " + std::to_string(o.doubled) +
         ", " + std::to_string(o.fallen) + " | " + std::to_string(o.log_bytes / 1024) + " | " +
         result(o.faults, o.tries) + " |\n";
}

std::string deceptions_head() { return "| deception | by | what | |\n| --- | --- | --- | --- |\n"; }

std::string deception_row(const deception& d, const std::string& fault, int tries) {
  std::vector<std::string> faults;
  if (!fault.empty()) faults.push_back(fault);
  return std::string("| ") + d.name + " | " + d.who + " | " + d.about + " | " + result(faults, tries) +
         " |\n";
}

std::string with_section(std::string document, std::string_view heading, std::string_view before,
                         std::string_view text) {
  const auto starts_at = [&document](std::string_view line) {
    return document.find("\n" + std::string(line) + "\n");
  };
  if (const auto at = starts_at(heading); at != std::string::npos) {
    auto end = document.find("\n## ", at + 1);
    if (end == std::string::npos) end = document.size() - 1;
    return document.replace(at + 1, end - at, text);
  }
  const auto at = starts_at(before);
  if (at == std::string::npos)
    throw std::runtime_error("the document has no section \"" + std::string(before) + "\"");
  return document.insert(at + 1, text);
}

}  // namespace pgwake::attack
