#include "common/pg/connector.hpp"
#include "common/os/signals_blocked.hpp"

#include <pthread.h>

#include <array>
#include <atomic>
#include <boost/asio/post.hpp>
#include <chrono>
#include <csignal>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>

namespace pgwake::pg {

namespace {

using steady = std::chrono::steady_clock;

// Attempts that were abandoned while they waited for a file or a name keep their thread until that answers.
constexpr unsigned most_threads = 4;
// Where they never end (a FIFO that was removed), connecting must not end with them: one more
// after each pause.
constexpr unsigned most_threads_ever = 64;
constexpr std::chrono::seconds pause_for_one_more{10};
constexpr std::size_t most_cancels = 4;

}  // namespace

struct connector::threads {
  std::atomic<unsigned> running = 0;
};

// Outlives the connector while its thread runs.
struct connector::attempt : progress {
  std::mutex guard;
  // Null once it was abandoned: then nothing is posted any more, the event loop may be gone too.
  boost::asio::any_io_executor executor;
  handler done;
  std::vector<cancel_handle> to_cancel;
  std::shared_ptr<threads> counted;

  handler take() {
    const std::lock_guard lock(guard);
    return std::exchange(done, nullptr);
  }
};

connector::connector(boost::asio::any_io_executor executor)
    : executor_(executor), timer_(std::move(executor)), threads_(std::make_shared<threads>()) {}

connector::~connector() { abandon(); }

bool connector::busy() const { return threads_->running > 0; }

void connector::abandon() {
  if (!current_) return;
  current_->halt();
  {
    const std::lock_guard lock(current_->guard);
    current_->done = nullptr;
    current_->executor = {};
  }
  current_.reset();
}

void connector::cancel_later(cancel_handle asked) {
  if (asked && to_cancel_.size() < most_cancels) to_cancel_.push_back(std::move(asked));
}

void connector::start(connect_settings settings, handler done) {
  abandon();
  const auto a = std::make_shared<attempt>();
  a->executor = executor_;
  a->done = std::move(done);
  a->counted = threads_;
  a->enter("starting a thread", settings.connect_timeout);
  current_ = a;
  watch();
  const bool one_more =
      threads_->running < most_threads_ever && steady::now() >= last_started_ + pause_for_one_more;
  if (threads_->running >= most_threads && !one_more)
    return fail(a, "attempts before it still wait for a file or the name service");
  a->to_cancel = std::exchange(to_cancel_, {});
  try {
    spawn(a, std::move(settings));
    last_started_ = steady::now();
  } catch (const std::exception& e) {
    to_cancel_ = std::exchange(a->to_cancel, {});
    fail(a, std::string("no thread to connect on: ") + e.what());
  }
}

void connector::spawn(const std::shared_ptr<attempt>& a, connect_settings settings) {
  const signals_blocked guard;
  ++a->counted->running;
  try {
    std::thread([a, settings = std::move(settings)] {
      run(a, settings);
      --a->counted->running;
    }).detach();
  } catch (...) {
    --a->counted->running;
    throw;
  }
}

void connector::run(const std::shared_ptr<attempt>& a, const connect_settings& settings) {
  {
    const auto result = std::make_shared<outcome>();
    try {
      *result = open_session(settings, *a);
    } catch (const std::bad_alloc&) {
      result->failure.message = "out of memory";
    }
    // An answer that was not given would leave its owner waiting for ever.
    while (!answer(a, result)) std::this_thread::sleep_for(millis{50});
  }
  std::array<char, 256> trouble{};
  for (const auto& c : a->to_cancel) PQcancel(c.get(), trouble.data(), trouble.size());
}

// Hands the outcome to the event loop; false when there is no memory for that.
bool connector::answer(const std::shared_ptr<attempt>& a, const std::shared_ptr<outcome>& result) {
  const std::lock_guard lock(a->guard);
  if (!a->done) return true;  // abandoned: the result closes its session when its last owner goes
  try {
    boost::asio::post(a->executor, [a, result] {
      if (const auto run = a->take()) run(std::move(*result));
    });
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

// Where there is no memory for it, watch() says later that it took too long.
void connector::fail(const std::shared_ptr<attempt>& a, std::string why) {
  const auto result = std::make_shared<outcome>();
  result->failure.message = std::move(why);
  answer(a, result);
}

void connector::watch() {
  timer_.expires_at(current_->now().until);
  timer_.async_wait([this, a = std::weak_ptr(current_)](const boost::system::error_code& cancelled) {
    const auto watched = a.lock();
    if (cancelled || !watched || watched->halted()) return;  // and this may be gone
    const auto stage = watched->now();
    if (watched != current_) return;
    if (stage.until > steady::now()) return watch();
    const auto done = watched->take();
    abandon();
    if (!done) return;
    outcome result;
    result.failure.message = std::string(stage.doing) + " took too long";
    done(std::move(result));
  });
}

}  // namespace pgwake::pg
