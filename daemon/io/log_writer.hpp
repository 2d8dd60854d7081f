#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace pgwaked {

// Writes lines to a descriptor on a thread of its own, so that whoever logs never waits: a pipe whose reader
// has stopped, a terminal that is held, a disk that hangs and a journal that is busy all block in write(),
// and O_NONBLOCK would be set for every process that shares the open file (and does nothing for a disk).
//
// What waits is at most `max_bytes`; a line that does not fit is dropped and counted, and a line made by
// `notice` says so as soon as there is room. Lines are written whole, in pieces of at most PIPE_BUF, so that
// those of other writers do not end up inside them. Any thread may call.
class log_writer {
 public:
  static constexpr std::size_t max_bytes = 256 * 1024;
  // `lines` dropped since the last notice, `total` since the start.
  using notice = std::function<std::string(std::uint64_t lines, std::uint64_t total)>;

  log_writer(int fd, notice make_notice);
  ~log_writer();  // never waits
  log_writer(const log_writer&) = delete;
  log_writer& operator=(const log_writer&) = delete;

  void write(std::string_view line);
  // Waits until all is written and ends the thread. False: not within `patience`; the thread is still inside
  // write(), so the process must end without destructors.
  bool close(std::chrono::milliseconds patience);
  std::uint64_t dropped() const;

 private:
  struct shared;
  static void run(const std::shared_ptr<shared>& s);
  void start_thread();

  std::shared_ptr<shared> shared_;
};

}  // namespace pgwaked
