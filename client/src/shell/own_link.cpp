#include "client/src/shell/own_link.hpp"

#include <boost/asio/post.hpp>
#include <utility>

#include "client/src/shell/fork_guard.hpp"

namespace pgwake::client {

own_link::own_link(boost::asio::io_context& loop, own_events& events, pg::connect_settings settings)
    : loop_(loop),
      events_(events),
      settings_(std::move(settings)),
      connector_(loop.get_executor()),
      second_(loop.get_executor()) {}

void own_link::open() {
  if (under_way_.exchange(true)) return;
  try {
    start();
  } catch (...) {
    under_way_ = false;
    throw;
  }
}

void own_link::start() {
  tainted_ = false;
  connector_.start(settings_, [this](pg::connector::outcome outcome) { opened(std::move(outcome)); });
}

void own_link::opened(pg::connector::outcome outcome) {
  under_way_ = false;
  if (tainted_) {
    outcome.conn.reset();
    return open();
  }
  if (!outcome.conn) return events_.on_own_failed(outcome.failure);
  session_ = pg::session::open(loop_.get_executor(), std::move(outcome.conn), events_);
  fork_guard::rest_before_exit();  // libpq may just have made the TLS library register its own end
  events_.on_own_opened(outcome.info);
}

void own_link::query(const std::string& sql) {
  if (session_) session_->query(sql);
}

void own_link::notify(const std::string& payload, const std::string& sql) {
  auto settings = settings_;
  settings.application_name = "pgwake-check";  // it counts as nobody's own connection
  settings.first = sql;
  if (second_under_way_) {
    boost::asio::post(loop_,
                      [this, payload] { events_.on_own_notified(payload, "the one before it still waits"); });
    return;
  }
  second_.start(std::move(settings), [this, payload](const pg::connector::outcome& outcome) {
    second_under_way_ = false;
    events_.on_own_notified(payload, outcome.failure.message);
  });
  second_under_way_ = true;
}

bool own_link::read_pass() { return session_ && session_->read_pass(); }

void own_link::close() {
  if (session_) connector_.cancel_later(std::exchange(session_, nullptr)->give_up());
}

void own_link::abandon() {
  if (session_) session_->abandon();
}

}  // namespace pgwake::client
