#pragma once

#include <string>
#include <vector>

#include "common/pg/conninfo.hpp"
#include "common/server_facts.hpp"
#include "common/time.hpp"

namespace pgwake::pg {

// What libpq makes of the settings, service file and environment included, without connecting.
struct target {
  std::vector<host_entry> hosts;
  std::string user, database, sslmode, sslrootcert;
  millis connect_timeout{0};   // for each address; 0: libpq would wait for ever
  std::string passfile_fault;  // set: libpq would warn on stderr about its password file, and not use it
  std::string fault;           // set: libpq cannot use the settings at all; without passwords
};
// Reads the service file and looks at the password file: not for an event loop.
target target_of(const connect_settings& settings);

// The settings for one host of the target, or one address of it.
parameters to_one_host(const connect_settings& settings, const target& whole, const host_entry& host);

}  // namespace pgwake::pg
