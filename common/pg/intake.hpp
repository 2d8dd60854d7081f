#pragma once

#include <cstdint>

#include "common/intake_account.hpp"
#include "common/time.hpp"

namespace pgwake::pg {

// Whether a server sends what nobody asked for without end: intake_account with the figures of a socket.
class intake {
 public:
  // `socket`: a connected stream socket; -1: nothing is watched.
  intake(int socket, steady_time now);
  void about_to_read();
  // libpq handed out so many bytes of the server's.
  void took(std::size_t bytes) { account_.took(bytes); }
  // After libpq has read; false: it keeps more than it should.
  bool fits(steady_time now) const;

 private:
  int socket_;
  bool tcp_ = false;
  intake_account account_;
};

}  // namespace pgwake::pg
