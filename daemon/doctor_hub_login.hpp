#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/settings.hpp"

namespace pgwaked {

// Whom the hub with this process ID logs in to the database as: by the command line that it was started with,
// its settings file as that is now, and its environment as far as that may be read. `account` is the name of
// the account that it runs under. Nothing where that does not tell: a hub of another container, a file that
// may not be read, a service.
std::optional<std::string> database_user_of(std::int64_t pid, const std::string& account);

// `database_file`, or where systemd has it from: the copy that it made for an instance's hub may not be there
// to be read.
std::string readable_database_file(const settings& values);

}  // namespace pgwaked
