#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/eventually.hpp"

namespace pgwake::attack {

using namespace std::chrono_literals;
using test::clock;
using test::milliseconds;

/// What an attacker has: the hub's socket, and a database login that may connect and no more.
struct target {
  std::string socket;
  std::string conninfo;
  int metrics_port = 0;
};

/// Whether the attack goes on; shared with the process that measures.
class cease {
 public:
  explicit cease(const std::atomic<bool>& flag) : flag_(flag) {}
  explicit operator bool() const { return flag_.load(std::memory_order_relaxed); }

 private:
  const std::atomic<bool>& flag_;
};

/// One attack on a hub with its default settings, played by a process of another user than the innocent
/// workers.
struct attack {
  const char* name;
  const char* who;    ///< worker, role, worker + role, metrics
  const char* about;  ///< what is done, in a few words
  /// Runs in a process of its own until `stop`, or until it has done its worst.
  void (*play)(const target& t, const cease& stop);
  bool quick = false;  ///< in the short form, too
};

const std::vector<attack>& socket_attacks();
const std::vector<attack>& flood_attacks();
const std::vector<attack>& role_attacks();

/// One try of a peer that lies, on a hub or a library of its own; what went wrong, empty if nothing did.
struct deception {
  const char* name;
  const char* who;  ///< false server, false hub
  const char* about;
  std::string (*play)();
  bool quick = false;
};

const std::vector<deception>& false_servers();
const std::vector<deception>& false_hubs();

}  // namespace pgwake::attack
