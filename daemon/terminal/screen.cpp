#include "daemon/terminal/screen.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

namespace pgwaked {
namespace {

// Alternate screen, cursor hidden, no wrapping at the right margin.
constexpr std::string_view take_over = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
constexpr std::string_view give_back = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";

constexpr std::array ending = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

volatile std::sig_atomic_t told_to_end = 0;
volatile std::sig_atomic_t told_of_size = 0;

void note_end(int) { told_to_end = 1; }
void note_size(int) { told_of_size = 1; }

void handle(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigaction(number, &action, nullptr);
}

void write_all(std::string_view text) {
  while (!text.empty()) {
    const auto n = write(STDOUT_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // the terminal is gone
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace

terminal_screen::terminal_screen() {
  told_to_end = 0;
  for (const int number : ending) handle(number, note_end);
  handle(SIGWINCH, note_size);
  tcgetattr(STDIN_FILENO, &before_);
  enter();
}

terminal_screen::~terminal_screen() {
  leave();
  for (const int number : ending) handle(number, SIG_DFL);
  handle(SIGWINCH, SIG_DFL);
}

void terminal_screen::enter() {
  termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG | IEXTEN);
  raw.c_iflag &= ~static_cast<tcflag_t>(IXON | ICRNL);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw);
  write_all(take_over);
  entered_ = true;
}

void terminal_screen::leave() {
  if (!entered_) return;
  entered_ = false;
  write_all(give_back);
  tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
}

void terminal_screen::suspend() {
  leave();
  raise(SIGSTOP);
  enter();
}

terminal_screen::extent terminal_screen::size() const {
  winsize now{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &now) != 0 || now.ws_col == 0 || now.ws_row == 0) return {};
  return {now.ws_col, now.ws_row};
}

void terminal_screen::draw(std::string_view text) {
  std::string out = "\x1b[H";
  const auto rows = size().rows;
  for (std::size_t row = 0; row < rows && !text.empty(); ++row) {
    const auto end = std::min(text.find('\n'), text.size());
    if (row > 0) out += "\r\n";
    // Cleared before, not after: at the last column the cursor stays on the last character.
    out += "\x1b[2K";
    out += text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  out += "\x1b[J";
  write_all(out);
}

// The first of what was typed. Of an escape sequence that means nothing here the rest cannot be
// told from keys.
terminal_screen::key terminal_screen::next_typed() {
  constexpr char ctrl_z = 26;
  struct known {
    std::string_view bytes;
    key meaning;
  };
  constexpr std::array<known, 20> keys = {{{"\x1b[A", key::up},
                                           {"\x1bOA", key::up},
                                           {"k", key::up},
                                           {"\x1b[B", key::down},
                                           {"\x1bOB", key::down},
                                           {"j", key::down},
                                           {"\x1b[5~", key::page_up},
                                           {"\x1b[6~", key::page_down},
                                           {" ", key::page_down},
                                           {"\x1b[H", key::home},
                                           {"\x1bOH", key::home},
                                           {"\x1b[1~", key::home},
                                           {"g", key::home},
                                           {"\t", key::tab},
                                           {"s", key::sort},
                                           {"e", key::evict},
                                           {"y", key::yes},
                                           {"q", key::quit},
                                           {"Q", key::quit},
                                           {"\x03", key::quit}}};
  if (typed_.front() == ctrl_z) {
    typed_.erase(0, 1);
    suspend();
    return key::resized;
  }
  const auto* it =
      std::find_if(keys.begin(), keys.end(), [&](const known& k) { return typed_.starts_with(k.bytes); });
  if (it == keys.end()) {
    typed_.erase(0, typed_.front() == '\x1b' ? typed_.npos : 1);
    return key::other;
  }
  typed_.erase(0, it->bytes.size());
  return it->meaning;
}

void terminal_screen::forget_typed() {
  typed_.clear();
  tcflush(STDIN_FILENO, TCIFLUSH);
}

terminal_screen::key terminal_screen::wait(std::chrono::milliseconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  // Signals are let in only while waiting, so that none is missed between the look at the flag and the wait.
  sigset_t closed;
  sigset_t open;
  sigemptyset(&closed);
  for (const int number : ending) sigaddset(&closed, number);
  sigaddset(&closed, SIGWINCH);
  sigprocmask(SIG_BLOCK, &closed, &open);
  auto out = key::none;
  while (out == key::none) {
    if (told_to_end != 0) out = key::quit;
    if (std::exchange(told_of_size, 0) != 0) out = key::resized;
    if (out == key::none && !typed_.empty()) out = next_typed();
    const auto left =
        std::chrono::duration_cast<std::chrono::nanoseconds>(until - std::chrono::steady_clock::now());
    if (out != key::none || left.count() <= 0) break;
    const timespec time{static_cast<time_t>(left.count() / 1'000'000'000),
                        static_cast<long>(left.count() % 1'000'000'000)};
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (ppoll(&input, 1, &time, &open) <= 0) continue;
    std::array<char, 64> bytes{};
    const auto n = read(STDIN_FILENO, bytes.data(), bytes.size());
    if (n > 0)
      typed_.append(bytes.data(), static_cast<std::size_t>(n));
    else if (n == 0 || errno != EINTR)
      out = key::quit;  // the terminal is gone
  }
  sigprocmask(SIG_SETMASK, &open, nullptr);
  return out;
}

}  // namespace pgwaked
