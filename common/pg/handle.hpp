#pragma once

#include <libpq-fe.h>

#include <memory>
#include <string>

namespace pgwake::pg {

struct finish {
  void operator()(PGconn* conn) const noexcept { PQfinish(conn); }
};
struct clear {
  void operator()(PGresult* result) const noexcept { PQclear(result); }
};
struct free_options {
  void operator()(PQconninfoOption* options) const noexcept { PQconninfoFree(options); }
};
struct free_cancel {
  void operator()(PGcancel* cancel) const noexcept { PQfreeCancel(cancel); }
};
struct free_memory {
  void operator()(void* memory) const noexcept { PQfreemem(memory); }
};

// PQfinish is needed after a failed connect too. Asio must have released the descriptor before.
using handle = std::unique_ptr<PGconn, finish>;
using result_handle = std::unique_ptr<PGresult, clear>;
using options_handle = std::unique_ptr<PQconninfoOption, free_options>;
using cancel_handle = std::unique_ptr<PGcancel, free_cancel>;
using notify_handle = std::unique_ptr<PGnotify, free_memory>;

// What libpq says, without the newline at its end; empty for null.
inline std::string trimmed(const char* words) {
  std::string out = words != nullptr ? words : "";
  while (!out.empty() && (out.back() == '\n' || out.back() == ' ')) out.pop_back();
  return out;
}

}  // namespace pgwake::pg
