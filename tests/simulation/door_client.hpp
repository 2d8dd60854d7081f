#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>

#include "daemon/core/engine.hpp"

namespace pgwake::simulation {

// A driver at the front door, which asks one thing after the other, and what it may count on.
struct door_client {
  struct promise {
    bool covered = false;  // its LISTEN was completed: every commit from now on arrives, or the gap is told
    bool owes_gap = false;
    std::size_t lost_at = 0;        // what is committed later comes from a newer session
    std::deque<std::size_t> due;    // commits with a payload that must arrive
    std::deque<std::size_t> dirty;  // and those without one, of which it has not heard

    void end() { *this = promise(); }
  };

  pgwaked::worker_id id = 0;
  bool open = true;
  bool stalled = false;

  std::string out;   // to the hub
  std::string pipe;  // from it, as far as the hub has written
  std::string unread;
  std::size_t capacity = 4'096;

  // As it reads the stream.
  char ready = 0;          // of the last ReadyForQuery; 0: not let in yet
  bool asked = true;       // and not answered: the startup packet or a query
  bool answering = false;  // inside a response
  bool fatal = false;
  std::string refused;              // SQLSTATE in this response
  std::set<std::string> held;       // it listens to these
  std::set<std::string> view;       // and to these, if the transaction is committed
  std::set<std::string> asked_for;  // what view will be after the response
  std::ptrdiff_t last_commit = -1;
  bool gap_possible = false;  // a session was lost that may have been one that it listened through
  std::size_t losses = 0;     // of sessions
  std::size_t told = 0;       // of gaps
  std::map<std::string, promise> channels;
};

}  // namespace pgwake::simulation
