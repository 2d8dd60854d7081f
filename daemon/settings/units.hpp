#pragma once

#include "common/units.hpp"

// The daemon's settings and the client library's are written in the same units.
namespace pgwaked {

using pgwake::format_duration;
using pgwake::format_size;
using pgwake::parse_count;
using pgwake::parse_duration;
using pgwake::parse_size;
using pgwake::unit_error;

}  // namespace pgwaked
