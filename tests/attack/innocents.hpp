#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "attack/attack.hpp"

namespace pgwake::attack {

/// What the innocent workers have seen, in memory that their process shares with the one that judges.
struct ledger {
  static constexpr std::size_t room = 200'000;
  struct phase {
    std::atomic<std::uint32_t> count{0};
    std::array<std::uint32_t, room> wake_us{};  ///< from the NOTIFY to the frame read, one entry a worker
    std::atomic<std::uint32_t> acks{0};
    std::atomic<std::uint32_t> slowest_ack_us{0};  ///< of a sub of a channel that nobody has
  };
  std::array<phase, 2> phases{};  ///< before, during
  std::atomic<int> now{0};        ///< which of them
  std::atomic<bool> ready{false};
  std::atomic<bool> stop{false};         ///< for the innocent
  std::atomic<bool> attack_over{false};  ///< for the attacker
  std::atomic<std::uint32_t> lost{0};    ///< numbers that never came, without a gap
  std::atomic<std::uint32_t> doubled{0};
  std::atomic<std::uint32_t> gaps{0};
  std::atomic<std::uint32_t> fallen{0};  ///< connections that the hub has closed
  std::atomic<std::uint32_t> nacks{0};
  std::atomic<std::uint32_t> last{0};  ///< the newest number that every worker has seen
};

/// Starts a process with `workers` v1 workers that read what they get, and `slow` ones that do not; as the
/// user `daemon` where this process is root.
pid_t start_innocents(const std::string& socket, ledger& books, std::size_t workers, std::size_t slow);

/// Becomes that user with its group alone; nothing happens for other users than root.
void become(const char* user);

/// Microseconds of CLOCK_MONOTONIC, the same in all processes.
std::uint64_t now_us();

/// The value below which `share` (0 to 1) of the entries lie, in milliseconds.
double quantile_ms(const ledger::phase& p, double share);

}  // namespace pgwake::attack
