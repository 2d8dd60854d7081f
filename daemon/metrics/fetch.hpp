#pragma once

#include <boost/system/result.hpp>
#include <chrono>
#include <string>

#include "daemon/settings/settings.hpp"

namespace pgwaked {

// What a running hub serves as `/metrics` at `where`, or why it cannot be had, in words. Blocking, within
// `patience`; at most 16 MiB.
struct no_metrics {
  std::string reason;
};
boost::system::result<std::string, no_metrics> fetch_metrics(const metrics_address& where,
                                                             const std::string& token,
                                                             std::chrono::milliseconds patience);

}  // namespace pgwaked
