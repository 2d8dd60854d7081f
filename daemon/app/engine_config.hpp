#pragma once

#include <cstdint>
#include <string>

#include "daemon/core/engine.hpp"
#include "daemon/settings/options.hpp"

namespace pgwaked {

// The engine's configuration out of the settings. `nofile`: the descriptor limit, which bounds max_workers.
engine::config engine_config(const settings& s, std::uint64_t nofile);

// A connection string that libpq cannot parse never will connect: why, and where it came from, for people.
// Empty if it can, or if `database_file` cannot be read now (it may come).
std::string database_fault(const loaded& what);

}  // namespace pgwaked
