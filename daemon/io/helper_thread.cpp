#include "daemon/io/helper_thread.hpp"

#include <pthread.h>

#include <boost/asio/post.hpp>
#include <csignal>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "common/os/signals_blocked.hpp"

namespace pgwaked {

struct helper_thread::shared {
  std::mutex guard;
  boost::asio::any_io_executor executor;  // null once the owner is gone: the event loop may be gone, too
  bool busy = false;
};

helper_thread::helper_thread(boost::asio::any_io_executor executor) : shared_(std::make_shared<shared>()) {
  shared_->executor = std::move(executor);
}

helper_thread::~helper_thread() {
  const std::lock_guard lock(shared_->guard);
  shared_->executor = {};
}

bool helper_thread::busy() const {
  const std::lock_guard lock(shared_->guard);
  return shared_->busy;
}

bool helper_thread::start(job work) {
  const std::lock_guard lock(shared_->guard);
  const pgwake::signals_blocked guard;
  try {
    std::thread([state = shared_, work = std::move(work)] {
      auto then = work();
      const std::lock_guard inner(state->guard);
      state->busy = false;
      if (state->executor) boost::asio::post(state->executor, std::move(then));
    }).detach();
    shared_->busy = true;
  } catch (const std::system_error&) {
  }
  return shared_->busy;
}

}  // namespace pgwaked
