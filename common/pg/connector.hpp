#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "common/pg/conninfo.hpp"
#include "common/pg/handle.hpp"
#include "common/pg/opening.hpp"
#include "common/upstream.hpp"

namespace pgwake::pg {

// Opens sessions on a helper thread, since files, name resolution, TLS and libpq block. One attempt counts at
// a time; each of its steps has a limit, after which it has failed, even if its thread still hangs.
class connector {
 public:
  using outcome = opened;
  using handler = std::function<void(outcome)>;

  // The handler runs on the executor, never from inside a call. Helper threads have all signals blocked.
  explicit connector(boost::asio::any_io_executor executor);
  // Never blocks: an attempt under way is abandoned, its thread ends by itself and closes what it opened.
  ~connector();
  connector(const connector&) = delete;
  connector& operator=(const connector&) = delete;

  // Abandons the attempt under way, whose handler never runs. Whatever goes wrong comes to `done`, want of
  // a thread included.
  void start(connect_settings settings, handler done);
  // What a session had asked for when it was given up: it is cancelled on the next attempt's thread,
  // after that attempt.
  void cancel_later(cancel_handle asked);
  // A thread exists; it cannot be interrupted while it waits for a file or a name.
  bool busy() const;

 private:
  struct attempt;
  struct threads;
  static void run(const std::shared_ptr<attempt>& a, const connect_settings& settings);
  static bool answer(const std::shared_ptr<attempt>& a, const std::shared_ptr<outcome>& result);
  static void fail(const std::shared_ptr<attempt>& a, std::string why);
  void spawn(const std::shared_ptr<attempt>& a, connect_settings settings);
  void abandon();
  void watch();

  boost::asio::any_io_executor executor_;
  boost::asio::steady_timer timer_;
  std::shared_ptr<threads> threads_;
  std::shared_ptr<attempt> current_;
  std::vector<cancel_handle> to_cancel_;
  std::chrono::steady_clock::time_point last_started_{};  // a thread
};

}  // namespace pgwake::pg
