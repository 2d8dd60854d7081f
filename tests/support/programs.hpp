#pragma once

#include <string>

namespace pgwake::test {

/// A path to `program` that every user of this host may run: itself, or, where it lies in a folder that is
/// closed to others (a clone under /root), a copy that is gone when this process ends. Shared libraries are
/// not copied along.
std::string for_every_user(const std::string& program);

}  // namespace pgwake::test
