#pragma once

#include <termios.h>

#include <chrono>
#include <string>
#include <string_view>

namespace pgwaked {

// A whole terminal taken over: alternate screen, no echo, no cursor, keys at once. Given back as it was when
// destroyed; the signals that end a process are turned into key::quit, so that this happens then too. One at
// a time, standard input and output must be the terminal.
class terminal_screen {
 public:
  terminal_screen();
  ~terminal_screen();
  terminal_screen(const terminal_screen&) = delete;
  terminal_screen& operator=(const terminal_screen&) = delete;

  struct extent {
    std::size_t columns = 80, rows = 24;
  };
  extent size() const;

  // Shows `text`, lines with a newline after each, in place of what was there.
  void draw(std::string_view text);

  // `other`: one that means nothing here.
  enum class key { none, other, quit, up, down, page_up, page_down, home, tab, resized, sort, evict, yes };
  // The next key, or what happened instead; `none` once the time has passed. Ctrl-Z suspends the process
  // within this call and comes back as `resized`.
  key wait(std::chrono::milliseconds patience);
  // Keys that came before now mean nothing: whoever typed them had not seen what is asked.
  void forget_typed();

 private:
  void enter();
  void leave();
  void suspend();
  key next_typed();

  termios before_{};
  std::string typed_;  // read, and not yet returned as keys
  bool entered_ = false;
};

}  // namespace pgwaked
