#pragma once

#include <string>
#include <vector>

#include "daemon/command_line.hpp"

namespace pgwaked {

struct listen_options {
  std::vector<std::string> channels;
  bool json = false;
  // By the client library's names: socket, database, policy, fallback_limit, reattach. What is not here comes
  // from the environment, else it is the library's default.
  command_values given;
};

// Registers them on `app`; parsing fills `into`, which must outlive it.
void add_listen(CLI::App& app, listen_options& into);

// `pgwaked listen`: subscribes with the client library and prints each event until SIGINT, SIGTERM, or nobody
// reads any more. 0; 1 if a channel was refused or the output cannot be written; 2 for wrong usage.
int listen_command(const listen_options& options);

}  // namespace pgwaked
