#pragma once

#include <string>

#include "daemon/command_line.hpp"
#include "daemon/doctor_facts.hpp"

namespace pgwaked {

struct doctor_options {
  command_values given;  // settings
  bool json = false;
  std::string queue_threshold;  // per cent
  std::string fallback_limit;
};

// Looks at everything: the hub over its socket, the server over at most two short-lived sessions. Takes
// seconds where something does not answer; never fails. Numbers of `options` that make no sense are
// settings_error.
doctor_facts collect(const doctor_options& options);

}  // namespace pgwaked
