#pragma once

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "common/pg/handle.hpp"
#include "common/pg/target.hpp"
#include "common/time.hpp"
#include "common/upstream.hpp"

// Opening a connection step by step, on a thread that may block. Not for an event loop.
namespace pgwake::pg {

// An attempt as those see it who wait for it: what it does, until when it may, and whether it shall stop.
class progress {
 public:
  struct stage {
    const char* doing = "";
    steady_time until{};
  };
  void enter(const char* doing, millis limit);
  stage now() const;
  void halt() { halted_ = true; }
  bool halted() const { return halted_; }

 private:
  mutable std::mutex guard_;
  stage stage_;
  std::atomic<bool> halted_ = false;
};

handle begin_connect(const parameters& what);

// Waits for the connection's socket; false when the time is over, or the attempt is to stop.
bool wait_for(PGconn* conn, short events, steady_time until, const progress* halting = nullptr);

// Drives the connecting until `enough` says so, it is over, or the time is.
template <typename Enough>
PostgresPollingStatusType drive(PGconn* conn, steady_time until, Enough&& enough,
                                const progress* halting = nullptr) {
  auto state = PGRES_POLLING_WRITING;
  while (state != PGRES_POLLING_OK && state != PGRES_POLLING_FAILED && !enough()) {
    if (!wait_for(conn, state == PGRES_POLLING_READING ? POLLIN : POLLOUT, until, halting)) break;
    state = PQconnectPoll(conn);
  }
  return state;
}

// What libpq says about a connection that failed with verbose errors: the SQLSTATE, which it does not tell
// otherwise, and what is left for people, in one line of bounded length.
struct failed_words {
  std::string sqlstate;  // empty: not the server's own error
  std::string message;
};
failed_words words_of_failure(const std::string& message);

// Server and libpq may say anything, of any length.
std::string one_line(std::string words);

struct opened {
  handle conn;  // set: connected
  session_info info;
  connect_failure failure;
  std::string warning;                                  // about the settings; empty: none
  std::optional<std::int64_t> certificate_ends_in_s{};  // the server's, by TLS
};

// To the first host, and the first of its addresses, that takes the session; the settings' `first` is run.
opened open_session(const connect_settings& settings, progress& at);

}  // namespace pgwake::pg
