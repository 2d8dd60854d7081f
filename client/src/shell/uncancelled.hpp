#pragma once

#include <pthread.h>

namespace pgwake::client {

// Around what may be a cancellation point. A thread that is cancelled inside would end the process: its way
// out is an exception that nobody may stop, and the C ABI is no way for one. It is cancelled once outside.
class uncancelled {
 public:
  uncancelled() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~uncancelled() { pthread_setcancelstate(before_, nullptr); }
  uncancelled(const uncancelled&) = delete;
  uncancelled& operator=(const uncancelled&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace pgwake::client
