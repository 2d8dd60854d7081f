#pragma once

#include <string>

namespace pgwake::test {

/// A private certificate authority and a server certificate for localhost and 127.0.0.1, as files in
/// `directory`: ca.crt, server.crt, server.key (which only server_account() may read, as PostgreSQL wants
/// it).
void make_certificates(const std::string& directory);

}  // namespace pgwake::test
