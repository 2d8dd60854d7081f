#include "common/pg/connector.hpp"

#include <poll.h>
#include <pthread.h>

#include <boost/asio/post.hpp>
#include <chrono>
#include <csignal>
#include <mutex>
#include <new>
#include <thread>

#include "common/redact.hpp"

namespace pgwake::pg {

// Outlives the connector while an attempt is under way.
struct connector::shared {
  explicit shared(boost::asio::any_io_executor e) : executor(std::move(e)) {}

  std::mutex guard;
  // Null once the connector is gone: then nothing is posted any more, the event loop may be gone too.
  boost::asio::any_io_executor executor;
  bool abandoned = false;
  bool busy = false;
  handler done;
};

namespace {

// libpq tells no SQLSTATE for a failed connect; the texts of authentication failures have been stable
// since 8.0, and a text in another language only means the faster retry.
bool login_refused(std::string_view message) {
  for (const auto* words :
       {"password authentication failed", "no password supplied", "authentication failed",
        "no pg_hba.conf entry", "is not permitted to log in", "pg_hba.conf rejects", "\" does not exist"})
    if (message.find(words) != std::string_view::npos) return true;
  return false;
}

std::string place(const PGconn* conn) {
  const char* host = PQhost(conn);
  const char* port = PQport(conn);
  return std::string(host != nullptr ? host : "") + ":" + (port != nullptr ? port : "");
}

// What it failed with; empty: nothing.
std::string run_first(PGconn* conn, const connect_settings& settings) {
  if (settings.first.empty()) return "";
  const auto until = std::chrono::steady_clock::now() + settings.connect_timeout;
  if (PQsendQuery(conn, settings.first.c_str()) == 0) return trimmed(PQerrorMessage(conn));
  while (PQisBusy(conn) != 0) {
    const auto left = std::chrono::ceil<millis>(until - std::chrono::steady_clock::now()).count();
    if (left <= 0) return "no answer in time";
    pollfd p{PQsocket(conn), POLLIN, 0};
    if (poll(&p, 1, static_cast<int>(left)) > 0 && PQconsumeInput(conn) == 0)
      return trimmed(PQerrorMessage(conn));
  }
  const result_handle result(PQgetResult(conn));
  return PQresultStatus(result.get()) == PGRES_COMMAND_OK ? "" : trimmed(PQerrorMessage(conn));
}

connector::outcome connect_now(const connect_settings& settings) {
  const auto parameters = connect_parameters(settings);
  std::vector<const char*> keywords;
  std::vector<const char*> values;
  for (const auto& [keyword, value] : parameters) {
    keywords.push_back(keyword.c_str());
    values.push_back(value.c_str());
  }
  keywords.push_back(nullptr);
  values.push_back(nullptr);
  connector::outcome out;
  out.conn.reset(PQconnectdbParams(keywords.data(), values.data(), 1));
  if (!out.conn) {
    out.failure.message = "out of memory";
  } else if (PQstatus(out.conn.get()) != CONNECTION_OK || PQsocket(out.conn.get()) < 0) {
    out.failure.message = trimmed(PQerrorMessage(out.conn.get()));
    out.failure.login_refused = login_refused(out.failure.message);
    out.failure.message = hide_secrets_in(out.failure.message, settings.conninfo);
    out.conn.reset();
  } else if (auto fault = run_first(out.conn.get(), settings); !fault.empty()) {
    out.failure.message = std::move(fault);
    out.conn.reset();
  } else {
    out.info.backend_pid = PQbackendPID(out.conn.get());
    out.info.server_version = PQserverVersion(out.conn.get());
    out.info.server = place(out.conn.get());
  }
  return out;
}

}  // namespace

// Hands the outcome to the event loop; false when there is no memory for that.
bool connector::answer(const std::shared_ptr<shared>& state, const std::shared_ptr<outcome>& result) {
  const std::lock_guard lock(state->guard);
  state->busy = false;
  if (state->abandoned) return true;  // the result closes its session when its last owner goes
  try {
    boost::asio::post(state->executor, [state, result] {
      handler run;
      {
        const std::lock_guard inner(state->guard);
        run = std::move(state->done);
      }
      if (run) run(std::move(*result));
    });
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

connector::connector(boost::asio::any_io_executor executor)
    : shared_(std::make_shared<shared>(std::move(executor))) {}

connector::~connector() {
  const std::lock_guard lock(shared_->guard);
  shared_->abandoned = true;
  shared_->done = nullptr;
  shared_->executor = {};
}

bool connector::busy() const {
  const std::lock_guard lock(shared_->guard);
  return shared_->busy;
}

void connector::start(connect_settings settings, handler done) {
  {
    const std::lock_guard lock(shared_->guard);
    shared_->busy = true;
    shared_->done = std::move(done);
  }
  // The thread inherits the mask: no signal of the process is ever handled on it.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread([state = shared_, result = std::make_shared<outcome>(), settings = std::move(settings)] {
      try {
        *result = connect_now(settings);
      } catch (const std::bad_alloc&) {
        result->failure.message = "out of memory";
      }
      // An answer that was not given would leave its owner waiting for ever.
      while (!answer(state, result)) std::this_thread::sleep_for(millis{50});
    }).detach();
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    const std::lock_guard lock(shared_->guard);
    shared_->busy = false;
    shared_->done = nullptr;
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace pgwake::pg
