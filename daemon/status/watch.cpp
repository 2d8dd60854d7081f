#include "daemon/status/watch.hpp"

#include <pthread.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "common/os/signals_blocked.hpp"
#include "daemon/operator/hub_client.hpp"
#include "daemon/status/view.hpp"
#include "daemon/terminal/screen.hpp"
#include "daemon/terminal/text.hpp"

namespace pgwaked {
namespace {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

constexpr auto period = 1s;
constexpr auto patience = 5s;
constexpr auto key_patience = 100ms;

std::string clock_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 16> out{};
  std::strftime(out.data(), out.size(), "%H:%M:%S", &parts);
  return out.data();
}

// Asks the hub once a period on a thread of its own, so that keys and drawing never wait for a hub that is
// slow to answer. The thread holds its share of the state and is not waited for at the end.
class asker {
 public:
  struct answer {
    std::optional<hub_status> status;
    std::optional<hub_failure> failure;
    steady::time_point at;
    std::string told;  // what came of a wish; empty: there was none
  };

  explicit asker(std::string socket) : state_(std::make_shared<state>()) {
    const pgwake::signals_blocked guard;  // signals are the main thread's
    std::thread([s = state_, where = std::move(socket)] { work(*s, where); }).detach();
  }
  ~asker() {
    const std::lock_guard lock(state_->guard);
    state_->stop = true;
    state_->changed.notify_all();
  }
  asker(const asker&) = delete;
  asker& operator=(const asker&) = delete;

  void evict(std::uint64_t worker) {
    const std::lock_guard lock(state_->guard);
    state_->victim = worker;
    state_->changed.notify_all();
  }

  // What came since the last call.
  std::optional<answer> take() {
    const std::lock_guard lock(state_->guard);
    return std::exchange(state_->latest, std::nullopt);
  }

 private:
  struct state {
    std::mutex guard;
    std::condition_variable changed;
    std::optional<answer> latest;
    std::optional<std::uint64_t> victim;
    bool stop = false;
  };

  static void work(state& s, const std::string& socket) {
    std::optional<hub_client> hub;
    for (;;) {
      const auto due = steady::now() + period;
      auto told = carry_out_wish(s, hub);
      auto got = ask(hub, socket);
      std::unique_lock lock(s.guard);
      if (told.empty() && s.latest) told = std::move(s.latest->told);  // not taken yet
      s.latest = std::move(got);
      s.latest->told = std::move(told);
      s.changed.wait_until(lock, due, [&] { return s.stop || s.victim; });
      if (s.stop) return;
    }
  }

  // At the hub that was shown, and no other: the next one's numbers are other workers'.
  static std::string carry_out_wish(state& s, std::optional<hub_client>& hub) {
    std::optional<std::uint64_t> victim;
    {
      const std::lock_guard lock(s.guard);
      victim = std::exchange(s.victim, std::nullopt);
    }
    if (!victim) return {};
    if (!hub) return "the hub does not answer; nobody was evicted";
    const auto answer = hub->control({"evict", std::to_string(*victim)});
    if (answer) return printable(answer->text);
    hub.reset();
    return answer.error().message;
  }

  static answer ask(std::optional<hub_client>& hub, const std::string& socket) {
    const auto failed = [&](const hub_failure& why) {
      hub.reset();
      return answer{std::nullopt, why, steady::now(), {}};
    };
    if (!hub) {
      auto opened = hub_client::open(socket, "pgwaked status --watch", patience);
      if (!opened) return failed(opened.error());
      hub.emplace(std::move(*opened));
    }
    const auto json = hub->stats();
    if (!json) return failed(json.error());
    return {parse_status(*json), std::nullopt, steady::now(), {}};
  }

  std::shared_ptr<state> state_;
};

class watcher {
 public:
  explicit watcher(const std::string& socket) : asker_(socket), view_(socket) {}

  int run() {
    terminal_screen screen;
    auto redraw = steady::now();
    for (;;) {
      const bool fresh = take();
      if (fresh || steady::now() >= redraw) {
        draw(screen);
        redraw = steady::now() + period;
      }
      const auto key = screen.wait(key_patience);
      if (key == terminal_screen::key::quit) return view_.exit_code();
      if (key == terminal_screen::key::none) continue;
      act(key);
      if (key == terminal_screen::key::evict) screen.forget_typed();
      redraw = steady::now();
    }
  }

 private:
  bool take() {
    auto got = asker_.take();
    if (!got) return false;
    if (got->status) view_.observe(std::move(*got->status), got->at);
    if (got->failure) view_.unreachable(std::move(*got->failure), got->at);
    if (!got->told.empty()) view_.tell(std::move(got->told), steady::now());
    return true;
  }

  void draw(terminal_screen& screen) {
    const auto size = screen.size();
    status_view::look how;
    how.columns = size.columns;
    how.rows = size.rows;
    how.colours = std::getenv("NO_COLOR") == nullptr;
    how.utf8 = terminal_is_utf8();
    how.clock = clock_text();
    screen.draw(view_.screen(how, steady::now()));
  }

  void act(terminal_screen::key key) {
    using k = terminal_screen::key;
    if (view_.asks() && key != k::resized) {
      if (const auto victim = view_.answer(key == k::yes)) asker_.evict(*victim);
      return;
    }
    const auto page = static_cast<std::ptrdiff_t>(view_.page());
    if (key == k::up) view_.move(-1);
    if (key == k::down) view_.move(1);
    if (key == k::page_up) view_.move(-page);
    if (key == k::page_down) view_.move(page);
    if (key == k::home) view_.move_home();
    if (key == k::tab) view_.switch_table();
    if (key == k::sort) view_.next_order();
    if (key == k::evict) view_.ask_evict(steady::now());
  }

  asker asker_;
  status_view view_;
};

}  // namespace

int watch_status(const std::string& socket) { return watcher(socket).run(); }

}  // namespace pgwaked
