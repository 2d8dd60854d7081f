#include "client/src/shell/fork_guard.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace pgwake::client {
namespace {

// Plain data only: it must outlive every destructor, and a child must be able to use it.
pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
fork_guest* first = nullptr;

// A page that the kernel empties in every child (madvise(2), MADV_WIPEONFORK).
constexpr std::uint32_t alive = 0x70677761;
std::atomic<std::uint32_t>* mark = nullptr;

void make_mark() {
  const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* page = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (madvise(page, size, MADV_WIPEONFORK) != 0) {
    munmap(page, size);
    return;
  }
  mark = new (page) std::atomic<std::uint32_t>(alive);
}

__attribute__((destructor)) void drop_mark() {
  if (mark != nullptr) munmap(mark, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
  mark = nullptr;
}

}  // namespace

void fork_guard::prepare() {
  pthread_mutex_lock(&guard);
  for (auto* g = first; g != nullptr; g = g->next_) g->before_fork();
}

void fork_guard::parent() {
  for (auto* g = first; g != nullptr; g = g->next_) g->after_fork_in_parent();
  pthread_mutex_unlock(&guard);
}

void fork_guard::child() {
  if (mark != nullptr) mark->store(alive, std::memory_order_relaxed);
  auto* g = first;
  first = nullptr;
  while (g != nullptr) {
    auto* next = g->next_;
    g->next_ = g->previous_ = nullptr;
    g->after_fork_in_child();
    g = next;
  }
  pthread_mutex_init(&guard, nullptr);
}

void fork_guard::add(fork_guest& guest) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, [] {
    make_mark();
    pthread_atfork(&fork_guard::prepare, &fork_guard::parent, &fork_guard::child);
    rest_before_exit();
  });
  pthread_mutex_lock(&guard);
  guest.next_ = first;
  if (first != nullptr) first->previous_ = &guest;
  first = &guest;
  pthread_mutex_unlock(&guard);
}

void fork_guard::remove(fork_guest& guest) {
  pthread_mutex_lock(&guard);
  if (guest.previous_ != nullptr)
    guest.previous_->next_ = guest.next_;
  else if (first == &guest)
    first = guest.next_;
  if (guest.next_ != nullptr) guest.next_->previous_ = guest.previous_;
  guest.next_ = guest.previous_ = nullptr;
  pthread_mutex_unlock(&guard);
}

void fork_guard::notice_raw_fork() {
  if (mark == nullptr || mark->load(std::memory_order_relaxed) == alive) return;
  child();
}

void fork_guard::rest() {
  pthread_mutex_lock(&guard);
  for (auto* g = first; g != nullptr; g = g->next_) g->before_fork();
  pthread_mutex_unlock(&guard);
}

void fork_guard::rest_before_exit() {
  static std::atomic<int> registered = 0;
  if (registered.load(std::memory_order_relaxed) < 2 && registered.fetch_add(1) < 2)
    std::atexit(&fork_guard::rest);
}

}  // namespace pgwake::client
