#include "bench/worker_processes.hpp"

#include <pgwake/pgwake.h>
#include <poll.h>
#include <rapidjson/document.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <new>
#include <stdexcept>

#include "bench/receivers.hpp"
#include "common/frame.hpp"
#include "support/eventually.hpp"
#include "support/files.hpp"

namespace pgwake::bench {

using pgwake::test::throw_errno;

namespace {

constexpr int patience_ms = 30'000;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(steady::now().time_since_epoch()).count();
}

// False for frames that are no wake.
bool read_wake(std::string_view body, std::string& channel, std::string& payload) {
  rapidjson::Document frame;
  frame.Parse(body.data(), body.size());
  if (frame.HasParseError()) throw std::runtime_error("malformed frame");
  if (frame["t"] != "wake") return false;
  channel.assign(frame["q"].GetString(), frame["q"].GetStringLength());
  payload.assign(frame["p"].IsString() ? frame["p"].GetString() : "");
  return true;
}

void wait_readable(int fd) {
  pollfd p{fd, POLLIN, 0};
  while (poll(&p, 1, -1) < 0 && errno == EINTR) {
  }
}

}  // namespace

worker_processes::worker_processes(kind what, std::size_t count, std::string target, std::string channel)
    : target_(std::move(target)), channel_(std::move(channel)) {
  void* memory = mmap(nullptr, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw_errno("mmap");
  shared_ = new (memory) shared{};
  done_ = eventfd(0, EFD_CLOEXEC);
  const auto parent = getpid();
  for (std::size_t i = 0; i < count; ++i) {
    const pid_t pid = fork();
    if (pid < 0) throw_errno("fork");
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      work(what);
    }
    pids_.push_back(pid);
  }
  const bool all = pgwake::test::eventually(std::chrono::milliseconds(patience_ms),
                                            [&] { return shared_->ready == count || shared_->failed > 0; });
  if (!all || shared_->failed > 0) throw std::runtime_error("a worker process could not subscribe");
}

worker_processes::~worker_processes() {
  for (const auto pid : pids_) kill(pid, SIGKILL);
  for (const auto pid : pids_) waitpid(pid, nullptr, 0);
  close(done_);
  munmap(shared_, sizeof(shared));
}

void worker_processes::expect(std::size_t messages) {
  before_ = shared_->got;
  shared_->first = 0;
  shared_->last = 0;
  shared_->goal = before_ + messages * pids_.size();
}

void worker_processes::await() {
  pollfd p{done_, POLLIN, 0};
  if (poll(&p, 1, patience_ms) <= 0)
    throw std::runtime_error("worker processes miss messages: " + std::to_string(shared_->got - before_) +
                             " of " + std::to_string(shared_->goal - before_) + " came");
  std::uint64_t ignored = 0;
  if (read(done_, &ignored, sizeof ignored) < 0) throw_errno("read");
}

double worker_processes::deliveries_per_second() const {
  return static_cast<double>(shared_->goal - before_) * 1e9 /
         static_cast<double>(shared_->last - shared_->first);
}

void worker_processes::count(std::size_t messages) const {
  if (messages == 0) return;
  std::int64_t unset = 0;
  if (shared_->first == 0) shared_->first.compare_exchange_strong(unset, now_ns());
  const auto before = shared_->got.fetch_add(messages);
  const auto goal = shared_->goal.load();
  if (before >= goal || before + messages < goal) return;
  shared_->last = now_ns();
  const std::uint64_t one = 1;
  if (write(done_, &one, sizeof one) < 0) _exit(1);
}

void worker_processes::work(kind what) const {
  try {
    if (what == kind::frames) work_frames();
    if (what == kind::unread_frames) work_unread_frames();
    if (what == kind::library) work_library();
    if (what == kind::direct) work_direct();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "worker: %s\n", e.what());
  }
  ++shared_->failed;
  _exit(1);
}

void worker_processes::work_frames() const {
  const frame_workers one(target_, 1, {channel_});
  const int fd = one.descriptors().front();
  frame_reader reader(max_frame_from_hub);
  std::vector<char> buffer(64 * 1024);
  std::string channel;
  std::string payload;
  ++shared_->ready;
  while (true) {
    wait_readable(fd);
    const auto n = recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n == 0) throw std::runtime_error("the hub closed the connection");
    if (n < 0) continue;
    reader.append({buffer.data(), static_cast<std::size_t>(n)});
    std::size_t wakes = 0;
    for (std::string_view body; reader.next(body) == frame_reader::outcome::frame;)
      if (read_wake(body, channel, payload)) ++wakes;
    count(wakes);
  }
}

void worker_processes::work_unread_frames() const {
  const frame_workers one(target_, 1, {channel_});
  const int fd = one.descriptors().front();
  pgwake_wire wire;
  ++shared_->ready;
  while (true) {
    wait_readable(fd);
    count(read_socket(fd, wire));
  }
}

void worker_processes::work_library() const {
  auto* options = pgwake_options_new();
  pgwake_options_ignore_environment(options);
  pgwake_options_set(options, "socket", target_.c_str());
  pgwake_options_set(options, "policy", "none");
  pgwake_handle* handle = nullptr;
  if (pgwake_open(&handle, options) != PGWAKE_OK ||
      pgwake_subscribe(handle, channel_.c_str(), patience_ms) != PGWAKE_OK)
    throw std::runtime_error(pgwake_last_error());
  pgwake_options_free(options);
  std::size_t wakes = 0;
  const auto take = [](const pgwake_event* event, void* user) {
    if (event->kind == PGWAKE_EVENT_WAKE && event->gap == PGWAKE_GAP_NONE) ++*static_cast<std::size_t*>(user);
    return 0;
  };
  pgwake_state state{};
  state.size = sizeof state;
  do {  // what was subscribed before the hub was reached is acked later
    pgwake_dispatch(handle, take, &wakes, 0, 20);
    pgwake_get_state(handle, &state);
  } while (state.source != PGWAKE_SOURCE_HUB || state.healthy == 0);
  wakes = 0;
  ++shared_->ready;
  while (true) {
    if (pgwake_dispatch(handle, take, &wakes, 0, -1) < 0) throw std::runtime_error(pgwake_last_error());
    count(wakes);
    wakes = 0;
  }
}

void worker_processes::work_direct() const {
  PGconn* conn = connect_postgres(target_);
  execute(conn, "LISTEN \"" + channel_ + "\"");
  ++shared_->ready;
  while (true) {
    wait_readable(PQsocket(conn));
    if (PQconsumeInput(conn) == 0) throw std::runtime_error(PQerrorMessage(conn));
    std::size_t got = 0;
    while (PGnotify* n = PQnotifies(conn)) {
      PQfreemem(n);
      ++got;
    }
    count(got);
  }
}

}  // namespace pgwake::bench
