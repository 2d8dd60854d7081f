#include "client/src/core/reminders.hpp"

namespace pgwake::client {

bool reminders::due(bool unserved, steady_time now) {
  const auto interval = unserved ? poll_ : safety_;
  if (!unserved && safety_.count() == 0) {
    unserved_ = false;
    at_.reset();
    return false;
  }
  if (unserved != unserved_ || !at_) {
    unserved_ = unserved;
    at_ = now + interval;
  }
  if (now < *at_) return false;
  at_ = now + interval;
  return true;
}

}  // namespace pgwake::client
