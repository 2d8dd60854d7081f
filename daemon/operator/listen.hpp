#pragma once

#include <string>
#include <vector>

#include "daemon/settings/command_line.hpp"

namespace pgwaked {

struct listen_options {
  std::vector<std::string> channels;
  bool json = false;
  // By the client library's names: socket, database, policy, fallback_limit, reattach. What is not here comes
  // from the environment, else it is the library's default.
  command_values given;
  command_values settings;  // config: a hub's settings file, which says where it is
  bool wait = false;        // for as long as it takes until somebody serves
  std::string timeout;      // else for so long, a duration; empty: 15 s
};

// Registers them on `app`; parsing fills `into`, which must outlive it.
void add_listen(CLI::App& app, listen_options& into);

// `pgwaked listen`: subscribes with the client library and prints each event until SIGINT, SIGTERM, or
// nobody reads any more. 0; 1 if a channel was refused, nobody served, or the output cannot be written; 2
// for wrong usage.
int listen_command(const listen_options& options);

}  // namespace pgwaked
