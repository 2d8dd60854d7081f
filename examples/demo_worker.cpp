#include "demo_worker.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "pgwake/pgwake.h"

namespace demo {
namespace {

using Handle = std::unique_ptr<pgwake_handle, decltype(&pgwake_close)>;

void check(int result, const char* what) {
  if (result != PGWAKE_OK)
    throw std::runtime_error(std::string(what) + ": " + pgwake_strerror(result) + ": " + pgwake_last_error());
}

Handle open(const WorkerSettings& settings, int number) {
  const std::unique_ptr<pgwake_options, decltype(&pgwake_options_free)> options(pgwake_options_new(),
                                                                                pgwake_options_free);
  const std::string name = "demo worker " + std::to_string(number + 1);
  check(pgwake_options_set(options.get(), "policy", settings.policy.c_str()), "policy");
  check(pgwake_options_set(options.get(), "name", name.c_str()), "name");
  check(pgwake_options_set(options.get(), "application_name", settings.application_name.c_str()),
        "application_name");
  if (!settings.socket.empty())
    check(pgwake_options_set(options.get(), "socket", settings.socket.c_str()), "socket");
  // `database`, for a connection of its own, comes from PGWAKE_DATABASE.
  pgwake_handle* handle = nullptr;
  check(pgwake_open(&handle, options.get()), "open");
  return {handle, pgwake_close};
}

class Worker {
 public:
  Worker(Handle handle, int number, Shared& shared, WorkerDescriptors descriptors)
      : handle_(std::move(handle)), number_(number), shared_(shared), descriptors_(descriptors) {}

  void run() {
    check(pgwake_subscribe_many(handle_.get(), channels.data(), channels.size(), 20'000, nullptr),
          "subscribe");
    tell(descriptors_.ready);
    for (;;) {
      std::array<pollfd, 2> waiting = {pollfd{pgwake_fd(handle_.get()), POLLIN, 0},
                                       pollfd{descriptors_.stop, POLLIN, 0}};
      if (poll(waiting.data(), waiting.size(), -1) < 0) continue;
      if (waiting[1].revents != 0) return;
      const pgwake_event* event = nullptr;
      while (pgwake_next(handle_.get(), &event, 0) == PGWAKE_OK) take(*event);
    }
  }

 private:
  void take(const pgwake_event& event) {
    if (shared_.talk) print(event);
    if (event.kind == PGWAKE_EVENT_REFUSED) throw std::runtime_error(event.reason);
    if (event.kind != PGWAKE_EVENT_WAKE) return;
    if (event.gap != PGWAKE_GAP_NONE) ++report().gaps;
    if (event.payload == nullptr) {
      read_again(event.channel);
    } else {
      take_message(std::string_view(event.payload, event.payload_size));
    }
  }

  // Durable: the wake carries nothing, so look at what is stored now. One look serves any number of changes.
  void read_again(const char* channel) {
    for (std::size_t c = 0; c < channels.size(); ++c) {
      if (std::strcmp(channels[c], channel) != 0) continue;
      ++report().wakes[c];
      report().seen[c] = shared_.stored[c].load();
    }
  }

  // Ephemeral: the payload is the message and its only copy; the master numbers them.
  void take_message(std::string_view payload) {
    if (finished_) return;
    if (payload == end_mark) {
      finished_ = true;
      pgwake_state state = {};
      state.size = sizeof(state);
      check(pgwake_get_state(handle_.get(), &state), "state");
      report().by_hub = state.source == PGWAKE_SOURCE_HUB;
      tell(descriptors_.done);
    } else if (payload != std::to_string(++report().ephemerals)) {
      report().in_order = false;
    }
  }

  void print(const pgwake_event& event) {
    if (event.kind == PGWAKE_EVENT_STATE) {
      std::printf("worker %d: served by %s now\n", number_ + 1, pgwake_source_name(event.source));
    } else if (event.gap != PGWAKE_GAP_NONE) {
      std::printf("worker %d: %s may have been missed (%s): read again\n", number_ + 1, event.channel,
                  pgwake_gap_name(event.gap));
    } else if (event.payload == nullptr) {
      std::printf("worker %d: %s changed: read again\n", number_ + 1, event.channel);
    } else {
      std::printf("worker %d: %s says: %s\n", number_ + 1, event.channel, event.payload);
    }
    std::fflush(stdout);
  }

  static void tell(int descriptor) {
    const char byte = 1;
    if (write(descriptor, &byte, 1) != 1) throw std::runtime_error("the master is gone");
  }

  Report& report() { return shared_.reports[static_cast<std::size_t>(number_)]; }

  Handle handle_;
  int number_;
  Shared& shared_;
  WorkerDescriptors descriptors_;
  bool finished_ = false;
};

}  // namespace

int run_worker(const WorkerSettings& settings, int number, Shared& shared, WorkerDescriptors descriptors) {
  Report& report = shared.reports[static_cast<std::size_t>(number)];
  report.pid = getpid();
  try {
    Worker(open(settings, number), number, shared, descriptors).run();
    return 0;
  } catch (const std::exception& error) {
    std::snprintf(report.error.data(), report.error.size(), "%s", error.what());
    return 1;
  }
}

}  // namespace demo
