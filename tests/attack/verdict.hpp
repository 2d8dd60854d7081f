#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "attack/attack.hpp"

namespace pgwake::attack {

/// How long a process ran, and how long it waited for a processor meanwhile.
struct processor_time {
  double ran_ms = 0;
  double waited_ms = 0;
};

/// What one attack did to the others, and to the hub.
struct outcome {
  double p50_before_ms = 0, p99_before_ms = 0;
  double p50_ms = 0, p99_ms = 0;  ///< of the innocent workers' wakes, during the attack
  double direct_p99_ms =
      0;              ///< of a plain libpq session that listens beside them: what the machine itself did
  double ack_ms = 0;  ///< the slowest ack of a channel that nobody had
  processor_time served{};   ///< of the hub and its backend, during the attack
  std::size_t resident = 0;  ///< bytes that the hub grew by, at most
  std::size_t counted = 0;   ///< bytes that it said to hold, at most
  std::size_t lost = 0, doubled = 0, gaps = 0, fallen = 0;
  std::size_t log_bytes = 0;
  int tries = 1;                      ///< how many it took
  std::vector<std::string> faults{};  ///< what is not as it must be; empty is good
};

/// How much longer than by themselves hub and backend took, because they waited for a processor: 1 on a machine
/// with nothing else to do, at most 4.
double stretch(const processor_time& t);

/// The faults that follow from the figures.
std::vector<std::string> faults_of(const outcome& o);

/// The outcomes of attacks, and below them those of deceptions, as rows of tables in Markdown.
std::string attacks_head();
std::string attack_row(const attack& a, const outcome& o);
std::string deceptions_head();
std::string deception_row(const deception& d, const std::string& fault, int tries);

/// `document` with the section `heading` ("## ..."), up to the next of its rank, replaced by `text`; in front of the
/// section `before`, if it has none yet. Throws std::runtime_error where that is not there either.
std::string with_section(std::string document, std::string_view heading, std::string_view before,
                         std::string_view text);

}  // namespace pgwake::attack
