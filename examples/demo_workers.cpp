// What scripts/demo runs: a master that forks its workers before it does anything else, as Puma and gunicorn
// do, publishes to them, and checks what each of them received.
//
//   demo_workers --policy direct                    every worker on a LISTEN connection of its own
//   demo_workers --policy listener --socket PATH    all of them behind the hub at PATH
//
// PGWAKE_DATABASE is the connection string. Exit code 0 only if every count is right.
#include <fcntl.h>
#include <libpq-fe.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "demo_worker.hpp"

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using demo::Report;
using demo::Shared;

constexpr int durable_count = 1000;
constexpr int ephemeral_count = 1000;

struct Settings {
  demo::WorkerSettings worker;
  std::string when_done;
  std::string stay;
};

struct Pipe {
  int read = -1;
  int write = -1;
};

Pipe make_pipe() {
  std::array<int, 2> ends = {};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    throw std::runtime_error(std::string("pipe: ") + std::strerror(errno));
  return {ends[0], ends[1]};
}

Shared& make_shared_memory() {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error(std::string("mmap: ") + std::strerror(errno));
  return *new (memory) Shared;
}

class Publisher {
 public:
  explicit Publisher(const char* conninfo) : connection_(PQconnectdb(conninfo), PQfinish) {
    if (PQstatus(connection_.get()) != CONNECTION_OK)
      throw std::runtime_error(std::string("the publisher cannot connect: ") +
                               PQerrorMessage(connection_.get()));
  }

  std::string query(const char* sql, const std::vector<const char*>& values) {
    const std::unique_ptr<PGresult, decltype(&PQclear)> result(
        PQexecParams(connection_.get(), sql, static_cast<int>(values.size()), nullptr, values.data(), nullptr,
                     nullptr, 0),
        PQclear);
    if (PQresultStatus(result.get()) != PGRES_TUPLES_OK)
      throw std::runtime_error(std::string(sql) + ": " + PQerrorMessage(connection_.get()));
    return PQgetvalue(result.get(), 0, 0);
  }

  // An empty payload is none: a durable wake.
  void notify(const char* channel, const std::string& payload = {}) {
    query("SELECT pg_notify($1, $2)", {channel, payload.c_str()});
  }

 private:
  std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
};

// Waits until every worker has written its byte; false if one died, or at the deadline.
bool wait_for_workers(int descriptor, Clock::time_point deadline) {
  int written = 0;
  while (written < demo::worker_count) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd readable = {descriptor, POLLIN, 0};
    if (left <= 0 || poll(&readable, 1, static_cast<int>(left)) <= 0) return false;
    std::array<char, demo::worker_count> bytes = {};
    const auto count = read(descriptor, bytes.data(), bytes.size());
    if (count <= 0) return false;
    written += static_cast<int>(count);
  }
  return true;
}

// Durable and ephemeral take turns, on all channels, each in a transaction of its own.
void publish(Publisher& publisher, Shared& shared) {
  for (int i = 1; i <= durable_count || i <= ephemeral_count; ++i) {
    const auto channel = static_cast<std::size_t>(i) % demo::channels.size();
    if (i <= durable_count) {
      shared.stored[channel].store(i);
      publisher.notify(demo::channels[channel]);
    }
    if (i <= ephemeral_count) publisher.notify(demo::channels[channel], std::to_string(i));
  }
  publisher.notify(demo::channels[0], std::string(demo::end_mark));
}

bool is_right(const Report& report, const Shared& shared) {
  bool right = report.ephemerals == ephemeral_count && report.in_order && report.gaps == 0;
  for (std::size_t c = 0; c < demo::channels.size(); ++c) {
    right = right && report.seen[c] == shared.stored[c] && report.wakes[c] >= 1;
  }
  return right;
}

bool print_reports(const Shared& shared, bool by_hub) {
  std::printf("  worker      pid  served by   durable wakes  newest change read  ephemeral  in order\n");
  bool all_right = true;
  for (int i = 0; i < demo::worker_count; ++i) {
    const Report& report = shared.reports[static_cast<std::size_t>(i)];
    const bool right = is_right(report, shared) && report.by_hub == by_hub;
    int wakes = 0;
    int current = 0;
    for (std::size_t c = 0; c < demo::channels.size(); ++c) {
      wakes += report.wakes[c];
      current += report.seen[c] == shared.stored[c] ? 1 : 0;
    }
    std::printf("  %6d  %7d  %-9s  %6d of %4d   on %d of %d channels  %9d  %-8s%s%s\n", i + 1,
                report.pid.load(), report.by_hub ? "the hub" : "itself", wakes, durable_count, current,
                static_cast<int>(demo::channels.size()), report.ephemerals.load(),
                report.in_order ? "yes" : "NO", right ? "" : "  WRONG ", report.error.data());
    all_right = all_right && right;
  }
  return all_right;
}

// The master's side of a run. True if every count is right.
bool run_master(const Settings& settings, Shared& shared, int ready, int done) {
  const bool by_hub = settings.worker.policy != "direct";
  if (!wait_for_workers(ready, Clock::now() + 30s)) {
    std::printf("  not every worker could subscribe:\n");
    print_reports(shared, by_hub);
    return false;
  }
  Publisher publisher(std::getenv("PGWAKE_DATABASE"));
  const auto begin = Clock::now();
  publish(publisher, shared);
  const auto published = Clock::now();
  const bool complete = wait_for_workers(done, published + 30s);
  const auto received = Clock::now();
  std::printf(
      "  published %d durable and %d ephemeral notifications on %d channels in %.2f s; "
      "the last worker had them all %.1f ms later\n",
      durable_count, ephemeral_count, static_cast<int>(demo::channels.size()),
      std::chrono::duration<double>(published - begin).count(),
      std::chrono::duration<double, std::milli>(received - published).count());
  bool right = print_reports(shared, by_hub) && complete;
  std::printf(
      "  a durable wake says \"read again\", so those that wait merge into one: fewer than %d are no loss as "
      "long as "
      "the newest change was read\n",
      durable_count);
  if (!complete) std::printf("  not every worker had received everything after 30 s\n");
  const auto census = publisher.query("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1",
                                      {settings.worker.application_name.c_str()});
  const int expected = by_hub ? 1 : demo::worker_count;
  std::printf("  LISTEN connections of this host in pg_stat_activity: %s (expected: %d)\n", census.c_str(),
              expected);
  right = right && census == std::to_string(expected);
  return right;
}

Settings parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (i + 1 >= argc) throw std::invalid_argument(std::string(option) + ": a value is missing");
    const char* value = argv[++i];
    if (option == "--policy")
      settings.worker.policy = value;
    else if (option == "--socket")
      settings.worker.socket = value;
    else if (option == "--application-name")
      settings.worker.application_name = value;
    else if (option == "--when-done")
      settings.when_done = value;
    else if (option == "--stay")
      settings.stay = value;
    else
      throw std::invalid_argument(std::string(option) + ": no such option");
  }
  if (std::getenv("PGWAKE_DATABASE") == nullptr) throw std::invalid_argument("PGWAKE_DATABASE is not set");
  return settings;
}

void wait_for_stop() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  int which = 0;
  sigwait(&signals, &which);
}

int run(int argc, char** argv) {
  const Settings settings = parse(argc, argv);
  Shared& shared = make_shared_memory();
  const Pipe ready = make_pipe();
  const Pipe done = make_pipe();
  const Pipe stop = make_pipe();  // closed by the master alone: its workers then see end of file and leave
  std::fflush(stdout);
  std::vector<pid_t> workers;
  for (int i = 0; i < demo::worker_count; ++i) {
    const pid_t pid = fork();
    if (pid < 0) throw std::runtime_error(std::string("fork: ") + std::strerror(errno));
    if (pid == 0) {
      close(stop.write);
      close(ready.read);
      close(done.read);
      _exit(demo::run_worker(settings.worker, i, shared, {ready.write, done.write, stop.read}));
    }
    workers.push_back(pid);
  }
  close(ready.write);
  close(done.write);
  close(stop.read);
  bool right = run_master(settings, shared, ready.read, done.read);
  std::fflush(stdout);
  if (!settings.when_done.empty()) right = std::system(settings.when_done.c_str()) == 0 && right;
  if (!settings.stay.empty() && right) {
    shared.talk = true;
    right = std::system(settings.stay.c_str()) == 0;
    wait_for_stop();
  }
  close(stop.write);
  for (const pid_t pid : workers) {
    int status = 0;
    waitpid(pid, &status, 0);
    right = right && status == 0;
  }
  return right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "demo_workers: %s\n", error.what());
    return 2;
  }
}
