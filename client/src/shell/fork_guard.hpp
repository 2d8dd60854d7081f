#pragma once

namespace pgwake::client {

// What lives through fork(): everything that has a background thread and descriptors.
//
// Before a fork each guest's thread is brought to rest between two turns, so that the child sees it whole;
// after it, the parent's go on, and the child closes what it has inherited. No call of the application is
// held up for longer than a turn.
class fork_guest {
 public:
  virtual ~fork_guest() = default;
  // In the forking thread; async-signal-safe calls only.
  virtual void before_fork() = 0;
  virtual void after_fork_in_parent() = 0;
  virtual void after_fork_in_child() = 0;

 private:
  friend class fork_guard;
  fork_guest* next_ = nullptr;
  fork_guest* previous_ = nullptr;
};

class fork_guard {
 public:
  static void add(fork_guest& guest);
  static void remove(fork_guest& guest);
  // True in a child that was made behind the C library's back (a raw clone system call): the first to notice
  // has closed what was inherited. Costs no system call.
  static void notice_raw_fork();
  // Brings all background threads to rest when the process exits, before libraries that they use end
  // themselves. Counts twice: once at the beginning, and once when libpq may have made such a library
  // register its end.
  static void rest_before_exit();

 private:
  static void prepare();
  static void parent();
  static void child();
  static void rest();
};

}  // namespace pgwake::client
