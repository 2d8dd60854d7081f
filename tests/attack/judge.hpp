#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "attack/attack.hpp"

namespace pgwake::attack {

/// What one attack did to the others, and to the hub.
struct outcome {
  double p50_before_ms = 0, p99_before_ms = 0;
  double p50_ms = 0, p99_ms = 0;  ///< of the innocent workers' wakes, during the attack
  double direct_p99_ms =
      0;              ///< of a plain libpq session that listens beside them: what the machine itself did
  double ack_ms = 0;  ///< the slowest ack of a channel that nobody had
  std::size_t resident = 0;  ///< bytes that the hub grew by, at most
  std::size_t counted = 0;   ///< bytes that it said to hold, at most
  std::size_t lost = 0, doubled = 0, gaps = 0, fallen = 0;
  std::size_t log_bytes = 0;
  std::vector<std::string> faults{};  ///< what is not as it must be; empty is good
};

/// Starts a hub with default settings, lets innocent workers measure before and during the attack, and
/// judges.
outcome judge(const attack& a, milliseconds before, milliseconds during);

/// The same outcomes as rows of a table in Markdown.
std::string table_head();
std::string table_row(const attack& a, const outcome& o);

}  // namespace pgwake::attack
