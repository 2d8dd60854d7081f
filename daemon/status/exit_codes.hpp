#pragma once

namespace pgwaked {

// Exit codes of `pgwaked status`.
inline constexpr int status_healthy = 0;
inline constexpr int status_degraded = 1;  // a hub runs, and does not serve as it should
inline constexpr int status_wrong_usage = 2;
inline constexpr int status_not_running = 3;  // or not to be reached by this user
inline constexpr int status_no_answer = 4;    // it runs, and its loop stands still

}  // namespace pgwaked
