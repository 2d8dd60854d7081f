#pragma once

#include "daemon/doctor/collect.hpp"

namespace pgwaked {

// `pgwaked doctor`: looks, judges, prints. 0 all good, 1 a warning, 2 a failure (or wrong usage).
int doctor_command(const doctor_options& options);

}  // namespace pgwaked
