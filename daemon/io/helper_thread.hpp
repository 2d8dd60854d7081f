#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <memory>

namespace pgwaked {

// What may block is done on a thread of its own, one job at a time: files hang on mounts, names on the name
// service. A job that still runs at the end is abandoned; then the process must end without destructors.
class helper_thread {
 public:
  using on_loop = std::function<void()>;
  using job = std::function<on_loop()>;  // runs on the thread; what it returns runs on the executor

  explicit helper_thread(boost::asio::any_io_executor executor);
  ~helper_thread();  // never waits
  helper_thread(const helper_thread&) = delete;
  helper_thread& operator=(const helper_thread&) = delete;

  // False: there is no thread to be had. Not while busy(). The job must not throw.
  bool start(job work);
  bool busy() const;

 private:
  struct shared;
  std::shared_ptr<shared> shared_;
};

}  // namespace pgwaked
