#pragma once

#include <semaphore.h>

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "client/src/core/machine.hpp"
#include "client/src/settings/settings.hpp"
#include "client/src/shell/fork_guard.hpp"
#include "client/src/shell/hub_link.hpp"
#include "client/src/shell/mailbox.hpp"
#include "client/src/shell/own_link.hpp"
#include "client/src/shell/slots.hpp"

namespace pgwake::client {

// The event loop of one handle: readiness and the clock into the machine, its actions into system calls. It
// is run by a background thread, or by a thread of the application that waits (see seat). All members but the
// mailbox and what the fork guard uses belong to whoever has the seat.
class worker final : public fork_guest, private loop_turns, private hub_events, private own_events {
 public:
  // Throws std::system_error when the system refuses a descriptor or a thread.
  // `kept`: subscribed in the process that this one was forked from.
  explicit worker(const settings& s, std::vector<std::string> kept = {});
  // Ends the thread. Not in a child that inherited it: there the object is left alone for good.
  ~worker() override;
  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;

  mailbox& box() { return box_; }
  bool inherited() const override { return inherited_.load(std::memory_order_relaxed); }
  // In a child that inherited it: what was subscribed. Nothing if the fork did not wait for the end of a
  // turn: then nobody knows.
  std::optional<std::vector<std::string>> subscribed_at_fork();

 private:
  enum class motion { running, asked, resting };

  void before_fork() override;
  bool at_rest();
  void after_fork_in_parent() override;
  void after_fork_in_child() override;

  void on_hub_bytes() override;
  void on_hub_wake(wake&& w) override;
  void on_hub_message(from_hub&& message) override;
  void on_hub_closed(std::string reason) override;
  void on_hub_turn_end() override { finish_turn(); }
  void on_own_opened(const session_info& info) override;
  void on_own_failed(const connect_failure& failure) override;
  void on_own_notified(const std::string& payload, const std::string& trouble) override;
  void on_bytes() override;
  void on_result(query_result result) override;
  void on_notification(int backend_pid, std::string_view channel, std::string_view payload) override;
  void on_lost(std::string reason) override;
  void on_turn_end() override { finish_turn(); }

  void turn(std::optional<steady_time> until) noexcept override;
  bool reserved() const override {
    return broken_.load(std::memory_order_relaxed) || owed_.load(std::memory_order_relaxed) ||
           motion_ != motion::running || inherited();
  }

  void run();
  bool drive();
  void begin();
  void begin_again();
  void rest_if_asked();
  void rouse_by(steady_time at);
  void wait_for_commands();
  void obey(command& c);
  void on_time();
  void finish_turn();
  void carry_out_all();
  void carry_out(machine_action& a);
  void acquire();
  void rearm();
  bool state_changed();
  void pin_if_connecting();

  settings settings_;
  mailbox box_;
  boost::asio::io_context loop_{1};
  boost::asio::posix::stream_descriptor commands_;
  boost::asio::steady_timer timer_;
  boost::asio::steady_timer rouse_;  // the application that waits in the loop
  hub_link hub_;
  own_link own_;
  slots slots_;
  std::optional<machine> machine_;
  machine_actions actions_;
  std::vector<delivery> turn_;
  std::vector<std::string> unsubscribed_;  // in this turn
  std::vector<std::string> ended_;         // unsubscribed while a turn broke off
  std::vector<std::string> kept_;          // through a fork; for the first turn
  snapshot state_;
  std::optional<steady_time> armed_;
  std::optional<steady_time> rouse_at_;
  steady_time came_{};  // the hub's latest bytes
  bool stopped_ = false;
  std::atomic<bool> broken_ = false;  // a turn of the application's was
  std::atomic<bool> owed_ = false;    // actions_, which are not for the application's thread
  jitter random_;

  std::array<int, 3> loop_descriptors_{};
  std::atomic<motion> motion_ = motion::running;
  std::atomic<bool> inherited_ = false;
  // At the last fork; written and read by the forking thread alone.
  bool rested_ = true;
  bool exiting_ = false;  // it rested before, for good
  bool whole_ = false;    // between before_fork() and after it, and it rested
  sem_t at_rest_{};
  sem_t go_on_{};
  std::thread thread_;
};

}  // namespace pgwake::client
