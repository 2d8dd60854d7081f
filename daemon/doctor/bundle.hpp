#pragma once

#include <string>

#include "daemon/doctor/collect.hpp"
#include "daemon/doctor/report.hpp"

namespace pgwaked {

// `pgwaked doctor --bundle FILE`: what somebody elsewhere needs to understand this host's trouble, as one tar
// archive without secrets.

// Why no archive can be made at `path`, in words; empty: it may be tried.
std::string bundle_fault(const std::string& path);
// Gathers the rest and writes it with mode 0600; an existing file is never touched. Why it failed, in words;
// empty: it is there.
std::string write_bundle(const std::string& path, const doctor_options& options, const doctor_facts& facts,
                         const doctor_report& report);

}  // namespace pgwaked
