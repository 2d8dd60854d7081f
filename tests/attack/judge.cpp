#include "attack/judge.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

#include "attack/innocents.hpp"
#include "integration/http_client.hpp"
#include "support/background.hpp"
#include "support/cluster.hpp"
#include "support/hub_daemon.hpp"

namespace pgwake::attack {
namespace {

using test::background;
using test::cluster;
using test::eventually;
using test::hub_daemon;

// Memory that forked processes share.
class shared_ledger {
 public:
  shared_ledger()
      : memory_(mmap(nullptr, sizeof(ledger), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    new (memory_) ledger;
  }
  shared_ledger(const shared_ledger&) = delete;
  shared_ledger& operator=(const shared_ledger&) = delete;
  ~shared_ledger() { munmap(memory_, sizeof(ledger)); }
  ledger& operator*() const { return *static_cast<ledger*>(memory_); }
  ledger* operator->() const { return static_cast<ledger*>(memory_); }

 private:
  void* memory_;
};

// A forked process; killed and waited for at the end.
class child {
 public:
  explicit child(pid_t pid) : pid_(pid) {
    if (pid < 0) test::throw_errno("fork");
  }
  child(const child&) = delete;
  child& operator=(const child&) = delete;
  ~child() {
    if (!ended(0ms)) {
      ::kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  bool ended(milliseconds patience) {
    return ended_ ||
           eventually(patience, [this] { return ended_ = waitpid(pid_, nullptr, WNOHANG) == pid_; });
  }

 private:
  pid_t pid_;
  bool ended_ = false;
};

// A role that may connect to any database, and no more.
void make_role() {
  auto& pg = cluster::shared();
  if (pg.value("SELECT count(*) FROM pg_roles WHERE rolname = 'rogue'") == "0")
    pg.exec("CREATE ROLE rogue LOGIN");
}

pid_t start_attacker(const attack& a, const target& t, ledger& books) {
  const auto parent = getpid();
  const pid_t pid = fork();
  if (pid != 0) return pid;
  try {
    become("nobody");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent) a.play(t, cease(books.attack_over));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: the attacker ended: %s\n", a.name, e.what());
  }
  _exit(0);
}

// Numbers every 5 ms on `innocent`, and the time with them.
class publisher {
 public:
  explicit publisher(const std::string& database)
      : connection_(cluster::shared().connect(database)), thread_([this](const background::stop_flag& stop) {
          while (!stop) {
            const auto next = clock::now() + 5ms;
            const auto n = ++number_;
            connection_.notify("innocent", std::to_string(n) + " " + std::to_string(now_us()));
            std::this_thread::sleep_until(next);
          }
        }) {}
  std::uint32_t stop() {
    thread_.stop();
    return number_;
  }

 private:
  test::connection connection_;
  std::atomic<std::uint32_t> number_{0};
  background thread_;
};

// What a plain session hears of the same numbers, by phase.
class direct_listener {
 public:
  direct_listener(const std::string& database, const ledger& books)
      : connection_(cluster::shared().connect(database)),
        thread_([this, &books](const background::stop_flag& stop) {
          connection_.exec("LISTEN innocent");
          while (!stop) {
            const auto n = connection_.next_notification(20ms);
            if (!n || books.now == 0) continue;
            const auto space = n->payload.find(' ');
            took_us_.push_back(
                static_cast<std::uint32_t>(now_us() - std::stoull(n->payload.substr(space + 1))));
          }
        }) {}
  double p99_ms() {
    thread_.stop();
    if (took_us_.empty()) return 0;
    std::sort(took_us_.begin(), took_us_.end());
    return took_us_[took_us_.size() * 99 / 100] / 1000.0;
  }

 private:
  test::connection connection_;
  std::vector<std::uint32_t> took_us_{};
  background thread_;
};

// Root's look at the hub, again and again: what it counts, and what it takes.
class observer {
 public:
  observer(hub_daemon& hub, std::size_t base)
      : worker_(hub.connect_v1("observer")), thread_([this, &hub, base](const background::stop_flag& stop) {
          while (!stop) {
            look(hub, base);
            std::this_thread::sleep_for(100ms);
          }
        }) {}
  void stop() { thread_.stop(); }
  std::size_t counted() const { return counted_; }
  std::size_t resident() const { return resident_; }
  const std::string& fault() const { return fault_; }

 private:
  void look(hub_daemon& hub, std::size_t base) {
    const auto now = static_cast<std::size_t>(hub.child().rss_kib()) * 1024;
    resident_ = std::max(resident_, now > base ? now - base : 0);
    if (!fault_.empty()) return;
    try {
      worker_.send_json(R"({"t":"stats"})");
      const auto stats = worker_.expect("stats", 10s);
      counted_ =
          std::max(counted_, static_cast<std::size_t>(stats.doc["totals"]["outbox_bytes"].GetUint64()));
    } catch (const std::exception& e) {
      fault_ = std::string("the operator's stats: ") + e.what();
    }
  }

  test::raw_worker worker_;
  std::size_t counted_ = 0;
  std::size_t resident_ = 0;
  std::string fault_{};
  background thread_;
};

// Of 20, one after the other; five are enough to see.
int failed_scrapes(int port) {
  int failed = 0;
  for (int i = 0; i < 20 && failed < 5; ++i) {
    try {
      failed += test::http_ask({port, {}}, "/metrics").status == 200 ? 0 : 1;
    } catch (const std::exception&) {  // no connection, or no answer in time
      ++failed;
    }
  }
  return failed;
}

void wait_for(milliseconds duration) { std::this_thread::sleep_for(duration); }

// By the kernel's count, of a process's first thread; nothing where it does not count.
processor_time processor_time_of(pid_t pid) {
  double ran = 0;
  double waited = 0;
  std::ifstream("/proc/" + std::to_string(pid) + "/schedstat") >> ran >> waited;
  return {ran / 1e6, waited / 1e6};
}

// Of the hub and its session's backend together: every wake goes through both.
class served_meter {
 public:
  explicit served_meter(pid_t hub) : pids_{hub} {
    for (const int backend : cluster::shared().backend_pids()) pids_.push_back(backend);
    started_ = total();
  }
  processor_time since() const {
    const auto now = total();
    return {std::max(0.0, now.ran_ms - started_.ran_ms), std::max(0.0, now.waited_ms - started_.waited_ms)};
  }

 private:
  processor_time total() const {
    processor_time all;
    for (const auto pid : pids_) {
      const auto one = processor_time_of(pid);
      all.ran_ms += one.ran_ms;
      all.waited_ms += one.waited_ms;
    }
    return all;
  }

  std::vector<pid_t> pids_;
  processor_time started_{};
};

}  // namespace

outcome judge(const attack& a, milliseconds before, milliseconds during) {
  make_role();
  auto& pg = cluster::shared();
  const auto database = pg.new_database();
  const auto port = test::random_port();
  hub_daemon hub(
      {.database = pg.conninfo(database),
       .arguments = {"--socket-mode", "0666", "--metrics-listen", "127.0.0.1:" + std::to_string(port)}});
  const target t{hub.socket(), pg.conninfo(database, "rogue"), port};
  const bool fills_queues = std::string_view(a.name) == "four-hundred";

  shared_ledger books;
  child innocent(start_innocents(hub.socket(), *books, 8, fills_queues ? 5 : 0));
  if (!eventually(20s, [&] { return books->ready.load() || innocent.ended(0ms); }) || !books->ready)
    throw std::runtime_error("the innocent workers did not start");
  outcome o;
  publisher numbers(database);
  direct_listener direct(database, *books);
  if (fills_queues)
    pg.exec("SELECT pg_notify('slow', lpad(n::text, 7000, 'y')) FROM generate_series(1, 180) n", database);
  wait_for(before);

  observer watch(hub, static_cast<std::size_t>(hub.child().rss_kib()) * 1024);
  const auto log_before = hub.log().size();
  const served_meter meter(hub.child().pid());
  books->now = 1;
  child attacker(start_attacker(a, t, *books));
  wait_for(during);
  o.served = meter.since();
  const auto scrapes_failed = std::string_view(a.who) == "metrics" ? failed_scrapes(port) : 0;
  books->attack_over = true;
  if (!attacker.ended(10s)) o.faults.emplace_back("the attacker did not come back from the hub");
  watch.stop();

  const auto last = numbers.stop();
  if (!eventually(15s, [&] { return books->last >= last; }))
    o.faults.push_back("the last number is " + std::to_string(last) + ", an innocent worker is at " +
                       std::to_string(books->last));
  books->stop = true;
  if (!innocent.ended(10s)) o.faults.emplace_back("the innocent workers hang");

  const auto& p = books->phases;
  o.p50_before_ms = quantile_ms(p[0], 0.5);
  o.p99_before_ms = quantile_ms(p[0], 0.99);
  o.p50_ms = quantile_ms(p[1], 0.5);
  o.p99_ms = quantile_ms(p[1], 0.99);
  o.direct_p99_ms = direct.p99_ms();
  o.ack_ms = p[1].slowest_ack_us / 1000.0;
  o.resident = watch.resident();
  o.counted = watch.counted();
  o.lost = books->lost;
  o.doubled = books->doubled;
  o.gaps = books->gaps;
  o.fallen = books->fallen + books->nacks;
  o.log_bytes = hub.log().size() - log_before;
  for (auto& fault : faults_of(o)) o.faults.push_back(std::move(fault));
  if (!watch.fault().empty()) o.faults.push_back(watch.fault());
  if (scrapes_failed) o.faults.push_back(std::to_string(scrapes_failed) + " of 20 scrapes failed");
  if (!hub.running()) o.faults.emplace_back("the hub has ended");
  if (const auto code = hub.stop(15s); code != 0)
    o.faults.push_back(code ? "the hub ended with " + std::to_string(*code) : "the hub does not stop");
  return o;
}

}  // namespace pgwake::attack
