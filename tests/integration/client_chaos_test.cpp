#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdlib>
#include <iomanip>
#include <list>
#include <random>
#include <sstream>

#include "integration/client_rig.hpp"
#include "support/background.hpp"
#include "support/sanitizer.hpp"

using namespace pgwake::test;

// PGWAKE_TEST_CHAOS_SECONDS and PGWAKE_TEST_CHAOS_SEED say how long and which; scripts/chaos sets them.
namespace {

int from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr || *text == '\0' ? otherwise : std::atoi(text);
}

constexpr int worker_count = 50;

std::vector<std::string> channel_names() {
  std::vector<std::string> names;
  for (int i = 0; i < 20; ++i) names.push_back("c" + std::to_string(i));
  return names;
}

// Numbers on all channels, each in a transaction of its own, across restarts of the server. A number whose
// commit is not known to have worked is not used again.
class numbered_stream {
 public:
  numbered_stream(rig& r, std::vector<std::string> channels)
      : rig_(r),
        channels_(std::move(channels)),
        last_(channels_.size(), 0),
        thread_([this](const auto& stop) {
          while (!stop) {
            try {
              auto to = rig_.publisher();
              publish(to, stop);
            } catch (const std::exception&) {
              std::this_thread::sleep_for(50ms);
            }
          }
        }) {}

  void stop() { thread_.stop(); }
  const std::vector<std::string>& channels() const { return channels_; }
  /// After stop(): a number on each channel, known to be committed.
  std::vector<int> finish() {
    auto to = rig_.publisher();
    for (std::size_t i = 0; i < channels_.size(); ++i) to.notify(channels_[i], std::to_string(++last_[i]));
    return last_;
  }

 private:
  void publish(connection& to, const background::stop_flag& stop) {
    for (std::size_t i = 0; !stop; i = (i + 1) % channels_.size()) {
      to.notify(channels_[i], std::to_string(++last_[i]));
      std::this_thread::sleep_for(3ms);
    }
  }

  rig& rig_;
  std::vector<std::string> channels_;
  std::vector<int> last_;
  background thread_;
};

struct report {
  std::string line;
  int number(const std::string& name) const {
    const auto at = line.find(" " + name + "=");
    return at == std::string::npos ? -1 : std::atoi(line.c_str() + at + name.size() + 2);
  }
};

class chaos {
 public:
  explicit chaos(unsigned seed)
      : random_(seed), rig_({.arguments = {"--heartbeat", "500ms", "--drain-grace", "2s"}}) {
    rig::pg().exec("DO $$ BEGIN CREATE ROLE chaos LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$");
    auto argv = channel_names();
    argv.insert(argv.begin(), CHAOS_WORKER);
    for (int i = 0; i < worker_count; ++i)
      workers_.emplace_back(
          process_options{.argv = argv,
                          .env = {{"PGWAKE_SOCKET", rig_.hub().socket()},
                                  {"PGWAKE_DATABASE", rig::pg().conninfo(rig_.host().database(), "chaos")},
                                  {"PGWAKE_FALLBACK_APPLICATION_NAME", own_name()},
                                  {"PGWAKE_NAME", "chaos " + std::to_string(i)},
                                  {"PGWAKE_RETURN_DELAY", "500ms"},
                                  {"PGWAKE_RETURN_DELAY_MAX", "2s"},
                                  {"PGWAKE_UNHEALTHY_GRACE", "2s"},
                                  {"PGWAKE_FALLBACK_LIMIT", "40"},
                                  {"PGWAKE_FALLBACK_DIR", slots_ / "slots"},
                                  {"PGWAKE_PROBE_INTERVAL", "3s"},
                                  {"PGWAKE_PROBE_TIMEOUT", "3s"}}});
    for (auto& w : workers_) REQUIRE(w.wait_for_out("subscribed", 60s));
    stream_.emplace(rig_.host(), channel_names());
  }

  void run(std::chrono::seconds duration) {
    const auto until = clock::now() + duration;
    while (clock::now() < until) {
      hurt();
      std::this_thread::sleep_for(milliseconds(200 + below(900)));
      heal();
    }
  }

  void check() {
    for (auto& w : workers_) w.signal(SIGCONT);
    if (stopped_) rig_.hub().child().signal(SIGCONT);
    if (!rig_.hub().running()) rig_.hub().start();
    rig::pg().exec("ALTER ROLE chaos CONNECTION LIMIT -1");
    REQUIRE(rig_.hub().await_health(true, 60s));
    stream_->stop();
    const bool quiet = eventually(90s, [&] { return census(own_name()) == 0; });
    CHECK(quiet);
    const auto last = stream_->finish();
    std::vector<report> reports;
    const bool all = eventually(30s, [&] {
      rig_.notify("report", std::to_string(++reports_));
      const auto mark = "report " + std::to_string(reports_) + " ";
      reports.clear();
      return std::all_of(workers_.begin(), workers_.end(), [&](auto& w) {
        if (!w.wait_for_out(mark, 3s)) return false;
        const auto out = w.out();
        const auto at = out.rfind(mark);
        reports.push_back({out.substr(at, out.find('\n', at) - at)});
        return caught_up(reports.back(), last);
      });
    });
    CHECK(all);
    int w = 0;
    for (auto& one : workers_) {
      ++w;
      INFO("worker " << w);
      CHECK(one.running());
      const auto out = one.out();
      for (auto at = out.find("fault "); at != std::string::npos; at = out.find("fault ", at + 1))
        FAIL_CHECK(out.substr(at, out.find('\n', at) - at));
      CHECK(one.thread_count() == (under_tsan ? 3 : 2));
      CHECK(one.descriptor_count() < 24);
    }
    CHECK(census("pgwaked@%") == 1);
    CHECK(census(own_name()) == 0);
    CHECK(rig_.hub().child().descriptor_count() < 50 + 40);
    WARN(table(reports, last));
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  std::string own_name() { return "chaos-" + rig_.host().database(); }
  int census(const std::string& name) {
    return std::stoi(rig::pg().value("SELECT count(*) FROM pg_stat_activity WHERE datname = '" +
                                     rig_.host().database() + "' AND application_name LIKE '" + name + "'"));
  }
  static bool caught_up(const report& r, const std::vector<int>& last) {
    const auto names = channel_names();
    for (std::size_t i = 0; i < names.size(); ++i)
      if (r.number(names[i]) != last[i]) return false;
    return true;
  }

  void hurt() {
    switch (below(10)) {
      case 0:
      case 1:
        if (!rig_.hub().running() || stopped_) return;
        did("hub killed");
        rig_.hub().kill();
        return;
      case 2:
      case 3:
        if (!rig_.hub().running() || stopped_) return;
        did("hub restarted as planned");
        CHECK(rig_.hub().stop() == 0);
        if (below(2) == 0) rig_.hub().start();
        return;
      case 4:
        if (terminate("pgwaked@%")) did("hub's session terminated");
        return;
      case 5:
        if (terminate(own_name())) did("own session terminated");
        return;
      case 6:
        if (below(3) != 0) return;
        did("server restarted");
        rig::pg().restart(below(2) == 0 ? stop_mode::fast : stop_mode::immediate);
        return;
      case 7:
        if (!rig_.hub().running() || stopped_) return;
        did("hub stopped by a signal");
        rig_.hub().child().signal(SIGSTOP);
        stopped_ = true;
        go_on_at_ = clock::now() + milliseconds(300 + below(3'000));
        return;
      case 8:
        did("workers stopped by a signal");
        for (auto& w : workers_)
          if (below(5) == 0) w.signal(SIGSTOP);
        return;
      default:
        did("slots exhausted");
        rig::pg().exec("ALTER ROLE chaos CONNECTION LIMIT " + std::to_string(below(10)));
        return;
    }
  }

  void heal() {
    for (auto& w : workers_)
      if (below(2) == 0) w.signal(SIGCONT);
    if (stopped_ && clock::now() >= go_on_at_) {
      rig_.hub().child().signal(SIGCONT);
      stopped_ = false;
    }
    if (!rig_.hub().running() && below(2) == 0) rig_.hub().start();
    if (below(3) == 0) rig::pg().exec("ALTER ROLE chaos CONNECTION LIMIT -1");
  }

  bool terminate(const std::string& name) {
    const auto rows = rig::pg().exec(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '" + rig_.host().database() +
        "' AND application_name LIKE '" + name + "' ORDER BY random() LIMIT 3");
    return !rows.empty();
  }

  void did(const std::string& what) { ++done_[what]; }

  std::string table(const std::vector<report>& reports, const std::vector<int>& last) const {
    std::ostringstream out;
    for (const auto& [what, times] : done_) out << std::setw(32) << what << std::setw(6) << times << "\n";
    int published = 0;
    for (const int n : last) published += n;
    out << std::setw(32) << "numbers published" << std::setw(6) << published << "\n";
    out << "per worker                         least median   most\n";
    for (const char* name : {"received", "gaps", "falls", "handovers", "aborted", "faults"}) {
      std::vector<int> all;
      for (const auto& r : reports) all.push_back(r.number(name));
      if (all.empty()) continue;
      std::sort(all.begin(), all.end());
      out << std::setw(32) << name << std::setw(7) << all.front() << std::setw(7) << all[all.size() / 2]
          << std::setw(7) << all.back() << "\n";
    }
    return out.str();
  }

  std::mt19937 random_;
  temp_dir slots_;
  client_rig rig_;
  std::list<process> workers_;
  std::optional<numbered_stream> stream_;
  std::map<std::string, int> done_;
  bool stopped_ = false;
  clock::time_point go_on_at_;
  int reports_ = 0;
};

}  // namespace

TEST_CASE(
    "chaos: fifty workers, everything that can break: each number once and in order, or inside an announced "
    "gap") {
  const auto seed = static_cast<unsigned>(
      from_environment("PGWAKE_TEST_CHAOS_SEED", static_cast<int>(std::random_device()() & 0xffffff)));
  const auto seconds = from_environment("PGWAKE_TEST_CHAOS_SECONDS", 20);
  WARN("seed " << seed << ", " << seconds << " s (PGWAKE_TEST_CHAOS_SEED, PGWAKE_TEST_CHAOS_SECONDS)");
  chaos c(seed);
  c.run(std::chrono::seconds(seconds));
  c.check();
}
