#include "daemon/status_watch.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <optional>

#include "daemon/hub_client.hpp"
#include "daemon/status_view.hpp"
#include "daemon/terminal_screen.hpp"
#include "daemon/terminal_text.hpp"

namespace pgwaked {
namespace {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

constexpr auto period = 1s;
constexpr auto patience = 2s;

std::string clock_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 16> out{};
  std::strftime(out.data(), out.size(), "%H:%M:%S", &parts);
  return out.data();
}

class watcher {
 public:
  explicit watcher(const std::string& socket) : socket_(socket), view_(socket) {}

  int run() {
    terminal_screen screen;
    auto due = steady::now();
    for (;;) {
      if (steady::now() >= due) {
        ask();
        due = std::max(due + period, steady::now());
      }
      draw(screen);
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(due - steady::now());
      const auto key = screen.wait(std::max(left, 1ms));
      if (key == terminal_screen::key::quit) return view_.exit_code();
      act(key);
    }
  }

 private:
  void ask() {
    if (!hub_) {
      auto opened = hub_client::open(socket_, "pgwaked status --watch", patience);
      if (!opened) return failed(opened.error());
      hub_.emplace(std::move(*opened));
    }
    const auto json = hub_->stats();
    if (!json) return failed(json.error());
    if (auto status = parse_status(*json)) view_.observe(std::move(*status), steady::now());
  }

  void failed(const hub_failure& why) {
    hub_.reset();
    view_.unreachable(why.message, why.running(), steady::now());
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
    const auto page = static_cast<std::ptrdiff_t>(view_.page());
    if (key == k::up) view_.scroll(-1);
    if (key == k::down) view_.scroll(1);
    if (key == k::page_up) view_.scroll(-page);
    if (key == k::page_down) view_.scroll(page);
    if (key == k::home) view_.scroll_home();
    if (key == k::tab) view_.switch_table();
  }

  std::string socket_;
  std::optional<hub_client> hub_;
  status_view view_;
};

}  // namespace

int watch_status(const std::string& socket) { return watcher(socket).run(); }

}  // namespace pgwaked
