#pragma once

#include <functional>

#include "common/message.hpp"
#include "daemon/core/engine.hpp"
#include "daemon/settings/settings.hpp"

namespace pgwaked {

// What an operator's wish may need of the daemon beside its engine.
struct control_powers {
  const settings& current;
  std::function<void(log_level)> set_log_level;
  std::function<void()> drain;  // must not stop the hub before the answer is written
};

// Carries out the wish of worker `asker`, if it is root or of the hub's own user (SO_PEERCRED). The answer
// says what was done, or why not.
//
//   {"t":"control","do":"evict","arg":"7"}          closes a worker's connection
//   {"t":"control","do":"log-level","arg":"debug"}  until the next reload or restart
//   {"t":"control","do":"reconnect"}                opens the upstream session anew
//   {"t":"control","do":"drain"}                    tells the workers and stops, as SIGTERM does
//
// are answered by {"t":"control","ok":BOOL,"text":TEXT}. v1 only: to v0 the frame is an unknown one.
pgwake::control_answer carry_out_control(engine& hub, worker_id asker, const pgwake::control_request& wish,
                                         const control_powers& powers, pgwake::steady_time now);

}  // namespace pgwaked
