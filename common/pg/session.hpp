#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/pg/handle.hpp"
#include "common/pg/intake.hpp"
#include "common/upstream.hpp"

namespace pgwake::pg {

// What a session tells its owner, always from the event loop and never from inside a call of the owner's.
// Any of these may close or destroy the session.
class session_events {
 public:
  virtual ~session_events() = default;
  virtual void on_bytes() = 0;  // the server was heard
  virtual void on_result(query_result result) = 0;
  virtual void on_notification(int backend_pid, std::string_view channel, std::string_view payload) = 0;
  virtual void on_lost(std::string reason) = 0;  // last call
  virtual void on_turn_end() = 0;                // a read pass is over: flush what was routed
};

// One open libpq connection on the event loop: one query at a time, results and notifications in the order
// the server sent them, reading never stops. Bounded work per turn, bounded memory whatever the server sends:
// an answer that was not asked for (COPY, a second row, a value of megabytes) ends the session.
class session : public std::enable_shared_from_this<session> {
 public:
  static std::shared_ptr<session> open(boost::asio::any_io_executor executor, handle conn,
                                       session_events& events);
  ~session();
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  // A simple query; its outcome comes by on_result. Only when none is in flight.
  void query(std::string sql);
  // Takes what the server has sent by now; true if there was anything. Used before a deadline is judged.
  bool read_pass();
  // Closes at once; no event follows.
  void close();
  // The same; what the server is still asked for can be cancelled with what it returns (null: nothing is).
  cancel_handle give_up();
  // In the child of a fork: closes the inherited descriptors without a word to the server. The parent's
  // session goes on; this object is good for nothing but destruction.
  void abandon();

 private:
  session(boost::asio::any_io_executor executor, handle conn, session_events& events);
  void wait_readable();
  void wait_writable();
  void turn();
  void continue_later();
  bool pass();
  void flush();
  void send_waiting();
  void drain(std::size_t& budget);
  bool take_results();
  std::string note_result(const PGresult* result);
  std::string note_row(const PGresult* result);
  void hand_out(const PGnotify& n, std::size_t& budget);
  std::string trouble(bool good) const;
  void lose(std::string reason);
  static void notice(void* self, const PGresult* result);

  boost::asio::posix::stream_descriptor socket_;
  handle conn_;
  session_events* events_;  // null once closed
  std::optional<std::string> waiting_sql_;
  std::chrono::steady_clock::time_point turn_ends_{};
  bool in_pass_ = false;
  bool in_query_ = false;
  bool waiting_readable_ = false;
  bool waiting_writable_ = false;
  query_result result_;
  std::size_t rows_ = 0;  // of the statement whose rows come now
  bool drained_ = true;   // libpq has handed out all that it read
  intake intake_;
  std::string unasked_;  // set: the server said something that has no place here
};

}  // namespace pgwake::pg
