#pragma once

#include <string>

namespace pgwaked {

// Why an operator's command got no answer from a hub.
struct hub_failure {
  enum class kind {
    wrong_path,  // too long, no socket at all, or somebody else's
    absent,      // no such file
    stale,       // a socket file, and nobody behind it
    denied,      // the file's permissions
    no_socket,   // a hub holds the lock, and its socket is not there: it stops, or starts
    removed,     // something listens still, and the file or folder that leads to it is gone
    refused,     // the hub said `bye`
    silent,      // the deadline passed
    broken,      // the connection was lost, or what came is not the protocol
  };
  kind what;
  std::string message;  // for people: what happened, to which socket, what to do
  // A hub is alive, though it does not serve us.
  bool running() const { return what >= kind::no_socket; }
  // It does not answer, or not as one: its loop stands still, or the machine is overloaded.
  bool unanswered() const { return what == kind::silent || what == kind::broken; }
};

}  // namespace pgwaked
