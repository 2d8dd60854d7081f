#pragma once

#include <libpq-fe.h>

#include <memory>

namespace pgwake::pg {

struct finish {
  void operator()(PGconn* conn) const noexcept { PQfinish(conn); }
};
struct clear {
  void operator()(PGresult* result) const noexcept { PQclear(result); }
};
struct free_memory {
  void operator()(void* memory) const noexcept { PQfreemem(memory); }
};

// PQfinish is needed after a failed connect too. Asio must have released the descriptor before.
using handle = std::unique_ptr<PGconn, finish>;
using result_handle = std::unique_ptr<PGresult, clear>;
using notify_handle = std::unique_ptr<PGnotify, free_memory>;

}  // namespace pgwake::pg
