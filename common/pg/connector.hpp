#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <memory>

#include "common/pg/conninfo.hpp"
#include "common/pg/handle.hpp"
#include "common/upstream.hpp"

namespace pgwake::pg {

// Opens sessions with libpq's blocking connect on a helper thread, since name resolution, TLS and password
// files block. One attempt at a time: start() may be called again only after the former one's handler ran.
class connector {
 public:
  struct outcome {
    handle conn;  // set: connected
    session_info info;
    connect_failure failure;
  };
  using handler = std::function<void(outcome)>;

  // The handler runs on the executor. The helper thread has all signals blocked.
  explicit connector(boost::asio::any_io_executor executor);
  // Never blocks: an attempt under way is abandoned, its thread ends by itself and closes what it opened.
  ~connector();
  connector(const connector&) = delete;
  connector& operator=(const connector&) = delete;

  void start(connect_settings settings, handler done);
  bool busy() const;

 private:
  struct shared;
  static bool answer(const std::shared_ptr<shared>& state, const std::shared_ptr<outcome>& result);
  std::shared_ptr<shared> shared_;
};

}  // namespace pgwake::pg
