#pragma once

#include <optional>
#include <string>

#include "daemon/doctor/facts.hpp"
#include "daemon/settings/command_line.hpp"

namespace pgwaked {

struct doctor_options {
  command_values given;  // settings
  bool json = false;
  std::string queue_threshold;  // per cent
  std::string fallback_limit;
  std::optional<std::string> bundle;  // the archive to be written
};

// Looks at everything: the hub over its socket, the server over at most two short-lived sessions.
// Takes seconds where something does not answer; never fails. Numbers of `options` that make no
// sense are number_errors.
doctor_facts collect(const doctor_options& options);

}  // namespace pgwaked
