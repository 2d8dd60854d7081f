#pragma once

#include <string>

#include "daemon/status/model.hpp"

namespace pgwaked {

// What `pgwaked status` prints for people, at most `width` columns a line. `socket`: where it was asked.
// Names come out escaped.
std::string status_text(const hub_status& s, const std::string& socket, std::size_t width);

// `healthy`, or why not, in words: `degraded: waiting for PostgreSQL (connection refused)`.
std::string health_text(const hub_status& s);

// What to do about what ails it; empty where there is nothing to say.
std::string advice_for(const hub_status& s);

}  // namespace pgwaked
