#pragma once

#include <cstdint>
#include <optional>

#include "common/pg/handle.hpp"

namespace pgwake::pg {

// Seconds until the server's certificate ends, negative once it has; nullopt without TLS, or where libpq does
// not use OpenSSL.
std::optional<std::int64_t> certificate_expires_in(PGconn* conn);

}  // namespace pgwake::pg
