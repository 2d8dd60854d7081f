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

// What PostgreSQL keeps to. A name has at most 63 bytes and a payload 7,999 in the server's encoding, up to
// four times that here; each answer that is asked for is one row of names and numbers.
constexpr std::size_t longest_channel = std::size_t{4} * 63;
constexpr std::size_t longest_payload = std::size_t{4} * 8'000;
constexpr std::size_t longest_value = 1'024;
constexpr int most_columns = 1'664;
constexpr std::size_t most_statements = 100'000;
constexpr std::size_t longest_words = 1'000;
constexpr std::size_t tls_overhead = 64;  // of a message alone in its record
constexpr std::size_t result_overhead = 512;

std::string field(const PGresult* result, int code) {
  auto words = trimmed(PQresultErrorField(result, code));
  if (words.size() > longest_words) words.resize(longest_words);
  return words;
}

}  // namespace

std::shared_ptr<session> session::open(boost::asio::any_io_executor executor, handle conn,
                                       session_events& events) {
  std::shared_ptr<session> self(new session(std::move(executor), std::move(conn), events));
  self->wait_readable();
  return self;
}

session::session(boost::asio::any_io_executor executor, handle conn, session_events& events)
    : socket_(std::move(executor)),
      conn_(std::move(conn)),
      events_(&events),
      intake_(PQsocket(conn_.get()), std::chrono::steady_clock::now()) {
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

cancel_handle session::give_up() {
  cancel_handle asked(in_query_ && conn_ ? PQgetCancel(conn_.get()) : nullptr);
  close();
  return asked;
}

void session::abandon() {
  events_ = nullptr;
  if (conn_) ::close(PQsocket(conn_.get()));
  if (socket_.is_open()) ::close(socket_.native_handle());
  // PQfinish would say goodbye in the name of the parent's session.
  static_cast<void>(conn_.release());
}

// The server's own notices tell nothing that is needed. Those without SQLSTATE are libpq's, about a message
// that must not come now.
void session::notice(void* self, const PGresult* result) {
  if (PQresultErrorField(result, PG_DIAG_SQLSTATE) != nullptr) return;
  auto& unasked = static_cast<session*>(self)->unasked_;
  if (unasked.empty())
    unasked = "the server said what it was not asked: " + field(result, PG_DIAG_MESSAGE_PRIMARY);
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
  rows_ = 0;
  in_query_ = true;
  if (PQsendQuery(conn_.get(), sql.c_str()) == 1) {
    PQsetSingleRowMode(conn_.get());  // endless rows are seen one by one
    return flush();
  }
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
    // What libpq has read already is handed out first: so it holds no more than one look brought.
    bool good = true;
    if (drained_) {
      intake_.about_to_read();
      good = PQconsumeInput(conn_.get()) == 1;
    }
    if (events_ != nullptr) events_->on_bytes();
    const auto before = budget;
    drain(budget);
    drained_ = budget > 0;
    if (auto why = conn_ ? trouble(good) : std::string(); !why.empty()) lose(std::move(why));
    fruitless = budget == before ? fruitless + 1 : 0;
    flood = looks > 1 || before - budget >= flood_from;
  }
  in_pass_ = false;
  if (events_ != nullptr) events_->on_turn_end();
  send_waiting();
  return conn_ && budget == 0;
}

// Why the session cannot go on after a look; empty: it can.
std::string session::trouble(bool good) const {
  if (!unasked_.empty()) return unasked_;
  // libpq may have given it up while it read on in what had come.
  if (!good || PQstatus(conn_.get()) == CONNECTION_BAD) {
    auto words = trimmed(PQerrorMessage(conn_.get()));
    if (words.size() > longest_words) words.resize(longest_words);
    return words.empty() ? "the connection broke" : words;
  }
  // What is still to be handed out is no excess.
  if (drained_ && !intake_.fits(std::chrono::steady_clock::now()))
    return "the server sends more than it was asked for, without end";
  return {};
}

// Ready results first, then notifications, until there is neither.
void session::drain(std::size_t& budget) {
  for (bool any = true; any && conn_ && budget > 0;) {
    any = take_results();
    for (unsigned taken = 1; conn_ && budget > 0; ++taken) {
      const notify_handle n(PQnotifies(conn_.get()));
      if (!n) break;
      any = true;
      hand_out(*n, budget);
      if (taken % clock_every == 0 && std::chrono::steady_clock::now() >= turn_ends_) budget = 0;
    }
  }
}

void session::hand_out(const PGnotify& n, std::size_t& budget) {
  const auto channel = std::strlen(n.relname);
  const auto payload = std::strlen(n.extra);
  if (channel > longest_channel || payload > longest_payload)
    return lose("a notification came that is longer than PostgreSQL's");
  intake_.took(channel + payload + notification_overhead + tls_overhead);
  const auto cost = notification_overhead + payload;
  budget -= std::min(budget, cost);
  if (events_ != nullptr) events_->on_notification(n.be_pid, n.relname, n.extra);
}

bool session::take_results() {
  while (conn_ && in_query_ && PQisBusy(conn_.get()) == 0) {
    const result_handle result(PQgetResult(conn_.get()));
    if (result) {
      intake_.took(result_overhead);
      if (auto fault = note_result(result.get()); !fault.empty()) lose(std::move(fault));
      continue;
    }
    in_query_ = false;
    if (events_ != nullptr) events_->on_result(std::exchange(result_, {}));
    return true;
  }
  return false;
}

// All that PQgetResult can return. What it says is why the session cannot go on; empty: it can.
std::string session::note_result(const PGresult* result) {
  switch (PQresultStatus(result)) {
    case PGRES_SINGLE_TUPLE:
      return note_row(result);
    case PGRES_TUPLES_OK:  // after the last row
      if (std::exchange(rows_, 0) == 0) result_.row.clear();
      [[fallthrough]];
    case PGRES_COMMAND_OK:
      return ++result_.completed > most_statements ? "the server answers without end" : "";
    case PGRES_FATAL_ERROR:
      if (!std::exchange(result_.ok, false)) return "the server answered one query with several errors";
      result_.sqlstate = field(result, PG_DIAG_SQLSTATE).substr(0, 5);
      result_.message = field(result, PG_DIAG_MESSAGE_PRIMARY);
      if (result_.message.empty())
        result_.message = trimmed(PQresultErrorMessage(result)).substr(0, longest_words);
      return {};
    case PGRES_COPY_IN:
    case PGRES_COPY_OUT:
    case PGRES_COPY_BOTH:
      return "the server answered with COPY, which nobody asked for";
    case PGRES_EMPTY_QUERY:
    case PGRES_BAD_RESPONSE:
    case PGRES_NONFATAL_ERROR:
    case PGRES_PIPELINE_SYNC:
    case PGRES_PIPELINE_ABORTED:
      break;
  }
  return std::string("the server answered what nobody asked for (") + PQresStatus(PQresultStatus(result)) +
         ")";
}

std::string session::note_row(const PGresult* result) {
  if (++rows_ > 1) return "the server answered with more rows than were asked for";
  const int columns = PQnfields(result);
  if (columns > most_columns) return "the server answered with more columns than were asked for";
  result_.row.clear();
  for (int i = 0; i < columns; ++i) {
    const auto length = static_cast<std::size_t>(PQgetlength(result, 0, i));
    if (length > longest_value) return "the server answered with a value that is too long";
    intake_.took(length);
    result_.row.push_back(PQgetisnull(result, 0, i) != 0
                              ? std::nullopt
                              : std::optional<std::string>(std::string(PQgetvalue(result, 0, i), length)));
  }
  return {};
}

void session::lose(std::string reason) {
  auto* events = events_;
  close();
  if (events != nullptr) events->on_lost(std::move(reason));
}

}  // namespace pgwake::pg
