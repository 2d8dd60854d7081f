#pragma once

#include <string>
#include <vector>

#include "bench/report.hpp"

namespace pgwake::bench {

// An SVG: one panel per metric, one pair of horizontal bars per variant, on a logarithmic scale.
std::string plot(const std::string& title, const std::vector<cell>& cells);

}  // namespace pgwake::bench
