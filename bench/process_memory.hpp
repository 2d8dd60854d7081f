#pragma once

#include <sys/types.h>

#include <string>

namespace pgwake::bench {

// A field of a /proc file in KiB, such as "Pss:". Throws.
double field_kib(const std::string& path, const std::string& name);
double resident_kib(pid_t pid);

}  // namespace pgwake::bench
