#include "common/pg/session.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cstring>
#include <utility>

namespace pgwake::pg {
namespace {

// Bytes of notifications handed out in one turn before workers and timers get theirs: what a Unix socket
// takes at once, so that a burst is written on while the server sends more of it.
constexpr std::size_t turn_budget = 128 * 1024;
constexpr std::size_t notification_overhead = 64;  // the frame around a payload, about
// What one of them costs depends on how many workers get it, so time is bounded too, looked at now and then.
constexpr std::chrono::milliseconds turn_time{10};
constexpr unsigned clock_every = 16;
// A look that brought so many bytes is likely to be followed by more at once.
constexpr std::size_t flood_from = 4096;

std::string field(const PGresult* result, int code) { return trimmed(PQresultErrorField(result, code)); }

}  // namespace

std::shared_ptr<session> session::open(boost::asio::any_io_executor executor, handle conn,
                                       session_events& events) {
  std::shared_ptr<session> self(new session(std::move(executor), std::move(conn), events));
  self->wait_readable();
  return self;
}

session::session(boost::asio::any_io_executor executor, handle conn, session_events& events)
    : socket_(std::move(executor)), conn_(std::move(conn)), events_(&events) {
  PQsetnonblocking(conn_.get(), 1);
  PQsetNoticeReceiver(conn_.get(), &session::notice, this);
  // A descriptor of asio's own: libpq closes its one whenever it finds the connection broken.
  const int own = fcntl(PQsocket(conn_.get()), F_DUPFD_CLOEXEC, 0);
  if (own >= 0)
    socket_.assign(own);
  else
    boost::asio::post(socket_.get_executor(), [this, alive = weak_from_this()] {
      if (const auto self = alive.lock()) lose("out of descriptors");
    });
}

session::~session() { close(); }

void session::close() {
  events_ = nullptr;
  boost::system::error_code ignored;
  socket_.close(ignored);
  conn_.reset();
}

void session::abandon() {
  events_ = nullptr;
  if (conn_) ::close(PQsocket(conn_.get()));
  if (socket_.is_open()) ::close(socket_.native_handle());
  // PQfinish would say goodbye in the name of the parent's session.
  static_cast<void>(conn_.release());
}

void session::notice(void* self, const PGresult* result) {
  // 42622 name_too_long: the identifier was truncated (manual, appendix "PostgreSQL Error Codes").
  const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  if (state != nullptr && std::strcmp(state, "42622") == 0)
    static_cast<session*>(self)->result_.truncated = true;
}

void session::query(std::string sql) {
  if (!conn_) return;
  waiting_sql_ = std::move(sql);
  // From inside a pass it goes out when the pass is over: what was read before is routed first.
  if (!in_pass_) send_waiting();
}

void session::send_waiting() {
  if (!conn_ || !waiting_sql_) return;
  const auto sql = *std::exchange(waiting_sql_, std::nullopt);
  result_ = {};
  result_.ok = true;
  in_query_ = true;
  if (PQsendQuery(conn_.get(), sql.c_str()) == 1) return flush();
  auto why = trimmed(PQerrorMessage(conn_.get()));
  boost::asio::post(socket_.get_executor(), [alive = weak_from_this(), why = std::move(why)] {
    if (const auto self = alive.lock()) self->lose(why);
  });
}

void session::flush() {
  if (PQflush(conn_.get()) == 1) wait_writable();  // -1: the error shows when reading
}

void session::wait_writable() {
  if (waiting_writable_) return;
  waiting_writable_ = true;
  socket_.async_wait(boost::asio::posix::stream_descriptor::wait_write,
                     [alive = weak_from_this()](const boost::system::error_code& error) {
                       const auto self = alive.lock();
                       if (!self) return;
                       self->waiting_writable_ = false;
                       if (!error && self->conn_) self->flush();
                     });
}

void session::wait_readable() {
  if (!socket_.is_open() || waiting_readable_) return;
  waiting_readable_ = true;
  socket_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [alive = weak_from_this()](const boost::system::error_code& error) {
                       const auto self = alive.lock();
                       if (!self) return;
                       self->waiting_readable_ = false;
                       if (!error && self->conn_) self->turn();
                     });
}

void session::turn() {
  const auto keep = shared_from_this();
  if (pass()) return continue_later();
  if (!conn_) return;
  flush();
  wait_readable();
}

// What a spent turn left is inside libpq: the descriptor need not turn readable again for it.
void session::continue_later() {
  boost::asio::post(socket_.get_executor(), [alive = weak_from_this()] {
    const auto self = alive.lock();
    if (self && self->conn_) self->turn();
  });
}

bool session::read_pass() {
  if (!conn_) return false;
  const auto keep = shared_from_this();
  pollfd readable{PQsocket(conn_.get()), POLLIN, 0};
  if (::poll(&readable, 1, 0) <= 0) return false;
  if (pass()) continue_later();
  return true;
}

// Consumes and hands out until a pass yields nothing; true when the turn's budget was spent before. Under TLS
// a record may wait inside libpq without the descriptor turning readable: then only the third fruitless look
// counts (a record is at most 16 KiB, a look takes at least 8).
bool session::pass() {
  in_pass_ = true;
  turn_ends_ = std::chrono::steady_clock::now() + turn_time;
  std::size_t budget = turn_budget;
  const int looks = PQsslInUse(conn_.get()) != 0 ? 3 : 1;
  bool flood = true;
  for (int fruitless = 0; conn_ && budget > 0 && flood && fruitless < looks;) {
    const bool good = PQconsumeInput(conn_.get()) == 1;
    if (events_ != nullptr) events_->on_bytes();
    const auto before = budget;
    drain(budget);
    if (!good && conn_) lose(trimmed(PQerrorMessage(conn_.get())));
    fruitless = budget == before ? fruitless + 1 : 0;
    flood = looks > 1 || before - budget >= flood_from;
  }
  in_pass_ = false;
  if (events_ != nullptr) events_->on_turn_end();
  send_waiting();
  return conn_ && budget == 0;
}

// Ready results first, then notifications, until there is neither.
void session::drain(std::size_t& budget) {
  for (bool any = true; any && conn_ && budget > 0;) {
    any = take_results();
    for (unsigned taken = 1; conn_ && budget > 0; ++taken) {
      const notify_handle n(PQnotifies(conn_.get()));
      if (!n) break;
      any = true;
      const auto cost = notification_overhead + std::strlen(n->extra);
      budget -= std::min(budget, cost);
      if (events_ != nullptr) events_->on_notification(n->be_pid, n->relname, n->extra);
      if (taken % clock_every == 0 && std::chrono::steady_clock::now() >= turn_ends_) budget = 0;
    }
  }
}

bool session::take_results() {
  while (conn_ && in_query_ && PQisBusy(conn_.get()) == 0) {
    const result_handle result(PQgetResult(conn_.get()));
    if (result) {
      note_result(result.get());
      continue;
    }
    in_query_ = false;
    if (events_ != nullptr) events_->on_result(std::exchange(result_, {}));
    return true;
  }
  return false;
}

void session::note_result(const PGresult* result) {
  switch (PQresultStatus(result)) {
    case PGRES_COMMAND_OK:
    case PGRES_EMPTY_QUERY:
      return;
    case PGRES_TUPLES_OK:
      result_.row.clear();
      for (int i = 0; PQntuples(result) > 0 && i < PQnfields(result); ++i)
        result_.row.push_back(PQgetisnull(result, 0, i) != 0
                                  ? std::nullopt
                                  : std::optional<std::string>(PQgetvalue(result, 0, i)));
      return;
    default:
      result_.ok = false;
      result_.sqlstate = field(result, PG_DIAG_SQLSTATE);
      result_.message = field(result, PG_DIAG_MESSAGE_PRIMARY);
      if (result_.message.empty()) result_.message = trimmed(PQresultErrorMessage(result));
  }
}

void session::lose(std::string reason) {
  auto* events = events_;
  close();
  if (events != nullptr) events->on_lost(std::move(reason));
}

}  // namespace pgwake::pg
