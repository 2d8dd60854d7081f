#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "client/src/abi/c_api_support.hpp"
#include "client/src/shell/fork_guard.hpp"
#include "client/src/shell/uncancelled.hpp"

// The C ABI.
using namespace pgwake::client::abi;
namespace client = pgwake::client;
using pgwake::steady_time;

namespace {

void show(pgwake_handle& handle) {
  const auto& e = handle.taken;
  const bool state = e.what == client::event::kind::state;
  handle.view = {};
  handle.view.kind = kind_of(e.what);
  handle.view.source = source_of(e.source);
  handle.view.gap = gap_of(e);
  handle.view.by = e.by;
  handle.view.healthy = e.healthy ? 1 : 0;
  handle.view.channel = state ? nullptr : e.channel.c_str();
  handle.view.payload = e.payload ? e.payload->c_str() : nullptr;
  handle.view.payload_size = e.payload ? e.payload->size() : 0;
  handle.view.reason = e.what == client::event::kind::wake ? nullptr : e.reason.c_str();
  handle.view.id = e.id;
  handle.view.result = result_of(e.how);
  handle.view.flags = flags_of(e);
}

int take(pgwake_handle& handle, std::optional<steady_time> deadline) {
  switch (handle.worker->box().next(handle.taken, deadline)) {
    case client::mailbox::outcome::ok:
      show(handle);
      return PGWAKE_OK;
    case client::mailbox::outcome::timeout:
      // Else a signal handler has forked meanwhile, and this is the child.
      return handle.worker->inherited() ? usable(&handle) : PGWAKE_TIMEOUT;
    case client::mailbox::outcome::full:  // of start_subscribe() alone
    case client::mailbox::outcome::closed:
      return closed();
  }
  return PGWAKE_SYSTEM;
}

void copy(char* to, std::size_t room, const std::string& text) {
  const auto size = std::min(text.size(), room - 1);
  std::memcpy(to, text.data(), size);
  to[size] = '\0';
}

}  // namespace

extern "C" {

pgwake_options* pgwake_options_new(void) {
  forget_error();
  auto* options = new (std::nothrow) pgwake_options;
  if (options == nullptr) fail(PGWAKE_NOMEM, "out of memory");
  return options;
}

void pgwake_options_free(pgwake_options* options) { delete options; }

int pgwake_options_set(pgwake_options* options, const char* name, const char* value) {
  forget_error();
  if (options == nullptr || name == nullptr || value == nullptr)
    return fail(PGWAKE_INVALID, "a null pointer");
  return guarded([&] {
    if (client::find_option(name) == nullptr)
      return fail(PGWAKE_INVALID, std::string("there is no option \"") + name + "\"");
    std::string fault;
    if (!client::resolve({{name, value}}, nullptr, fault)) return fail(PGWAKE_INVALID, fault);
    options->said[name] = value;
    return static_cast<int>(PGWAKE_OK);
  });
}

int pgwake_options_ignore_environment(pgwake_options* options) {
  forget_error();
  if (options == nullptr) return fail(PGWAKE_INVALID, "a null pointer");
  options->ignore_environment = true;
  return PGWAKE_OK;
}

int pgwake_option_info(size_t index, const char** name, const char** environment, const char** default_value,
                       const char** about) {
  forget_error();
  return guarded([&] {
    const auto& table = client::option_table();
    if (index >= table.size()) return fail(PGWAKE_INVALID, "past the last option");
    const auto& o = table[index];
    if (name != nullptr) *name = o.name;
    if (environment != nullptr) *environment = o.environment;
    if (default_value != nullptr) *default_value = o.default_value;
    if (about != nullptr) *about = o.about;
    return static_cast<int>(PGWAKE_OK);
  });
}

int pgwake_open(pgwake_handle** handle, const pgwake_options* options) {
  forget_error();
  if (handle == nullptr) return fail(PGWAKE_INVALID, "no place for the handle");
  *handle = nullptr;
  const client::uncancelled meanwhile;
  return guarded([&] {
    std::string fault;
    const bool look = options == nullptr || !options->ignore_environment;
    const client::environment env = [](const char* name) -> const char* { return std::getenv(name); };
    auto settings = client::resolve(options != nullptr ? options->said : client::values{},
                                    look ? env : client::environment{}, fault);
    if (!settings) return fail(PGWAKE_INVALID, fault);
    if (const auto why = pgwake::pg::conninfo_fault(settings->database); !why.empty())
      return fail(PGWAKE_INVALID, settings->database_called + ": " + why);
    auto made = std::make_unique<pgwake_handle>();
    made->settings = std::move(*settings);
    made->worker = new client::worker(made->settings);
    *handle = made.release();
    return static_cast<int>(PGWAKE_OK);
  });
}

int pgwake_shutdown(pgwake_handle* handle) {
  forget_error();
  if (const int r = usable(handle); r != PGWAKE_OK) return r;
  return guarded([&] {
    handle->worker->box().shut();
    return static_cast<int>(PGWAKE_OK);
  });
}

void pgwake_close(pgwake_handle* handle) {
  forget_error();
  if (handle == nullptr) return;
  const client::uncancelled meanwhile;
  client::fork_guard::notice_raw_fork();
  if (handle->worker != nullptr && !handle->worker->inherited()) delete handle->worker;
  // The caller holds another reference: else this code would not be there for its call to return from.
  void* const library = handle->library.release();
  delete handle;
  if (library != nullptr) dlclose(library);
}

int pgwake_reopen(pgwake_handle* handle) {
  forget_error();
  if (const int r = forked(handle); r != PGWAKE_OK) return r;
  const client::uncancelled meanwhile;
  return guarded([&] {
    handle->worker = new client::worker(handle->settings);  // the inherited one is left alone for good
    handle->taken = {};
    return static_cast<int>(PGWAKE_OK);
  });
}

int pgwake_subscribe(pgwake_handle* handle, const char* channel, int timeout_ms) {
  return pgwake_subscribe_many(handle, &channel, 1, timeout_ms, nullptr);
}

int pgwake_subscribe_many(pgwake_handle* handle, const char* const* channels, size_t count, int timeout_ms,
                          int* results) {
  forget_error();
  if (const int r = usable(handle); r != PGWAKE_OK) return r;
  return guarded([&] {
    std::vector<std::string> names;
    if (const int r = names_of(channels, count, names); r != PGWAKE_OK || count == 0) return r;
    client::call waiting;
    const auto how = handle->worker->box().subscribe(std::move(names), until(timeout_ms), waiting);
    if (how == client::mailbox::outcome::closed) {
      for (size_t i = 0; results != nullptr && i < count; ++i) results[i] = PGWAKE_CLOSED;
      return closed();
    }
    const client::answer* bad = nullptr;
    for (size_t i = 0; i < count; ++i) {
      const auto& a = waiting.answers[i];
      if (results != nullptr) results[i] = result_of(a.how);
      if (bad == nullptr && a.how != client::answer::verdict::ok) bad = &a;
    }
    return bad != nullptr ? told(*bad) : static_cast<int>(PGWAKE_OK);
  });
}

int pgwake_unsubscribe(pgwake_handle* handle, const char* channel) {
  forget_error();
  if (const int r = usable(handle); r != PGWAKE_OK) return r;
  if (channel == nullptr) return fail(PGWAKE_INVALID, "a null pointer");
  return guarded([&] {
    const auto how = handle->worker->box().unsubscribe(channel);
    return how == client::mailbox::outcome::closed ? closed() : static_cast<int>(PGWAKE_OK);
  });
}

int pgwake_fd(pgwake_handle* handle) {
  forget_error();
  if (const int r = usable(handle); r != PGWAKE_OK) return r;
  return handle->worker->box().event_descriptor();
}

int pgwake_next(pgwake_handle* handle, const pgwake_event** event, int timeout_ms) {
  forget_error();
  if (event != nullptr) *event = nullptr;
  if (const int r = usable(handle); r != PGWAKE_OK) return r;
  if (event == nullptr) return fail(PGWAKE_INVALID, "no place for the event");
  return guarded([&] {
    const int r = take(*handle, until(timeout_ms));
    if (r == PGWAKE_OK) *event = &handle->view;
    return r == PGWAKE_TIMEOUT ? fail(r, "no event came within the deadline") : r;
  });
}

int pgwake_dispatch(pgwake_handle* handle, pgwake_callback callback, void* user, size_t max, int timeout_ms) {
  forget_error();
  if (const int r = usable(handle); r != PGWAKE_OK) return r;
  if (callback == nullptr) return fail(PGWAKE_INVALID, "no callback");
  return guarded([&] {
    // Those that wait now, and no more: a stream that never ends must not keep this thread for ever.
    const auto most = max != 0 ? max : std::max<std::size_t>(1, handle->worker->box().waiting());
    int count = 0;
    auto deadline = until(timeout_ms);
    while (static_cast<std::size_t>(count) < most) {
      const int r = take(*handle, deadline);
      if (r == PGWAKE_TIMEOUT) break;
      if (r != PGWAKE_OK) return count > 0 ? count : r;
      ++count;
      if (callback(&handle->view, user) != 0) break;
      deadline = steady_time::min();
    }
    return count;
  });
}

int pgwake_get_state(pgwake_handle* handle, pgwake_state* state) {
  forget_error();
  if (const int r = usable(handle); r != PGWAKE_OK) return r;
  if (state == nullptr || state->size < sizeof state->size)
    return fail(PGWAKE_INVALID, "state.size is not set");
  return guarded([&] {
    const auto s = handle->worker->box().state();
    pgwake_state out{};
    out.size = state->size;
    out.source = source_of(s.source);
    out.healthy = s.healthy ? 1 : 0;
    out.handing_over = s.handing_over ? 1 : 0;
    out.own_slot = s.slot ? 1 : 0;
    out.channels = s.channels;
    out.waiting = s.waiting;
    out.waiting_bytes = s.waiting_bytes;
    out.wakes = s.wakes;
    out.coalesced = s.coalesced;
    out.discarded = s.discarded;
    out.gaps = s.gaps;
    out.falls = s.falls;
    out.handovers = s.handovers;
    out.handovers_aborted = s.aborted;
    out.hub_connects = s.hub_connects;
    out.own_connects = s.own_connects;
    copy(out.reason, sizeof out.reason, s.reason);
    copy(out.hub, sizeof out.hub, s.hub);
    std::memcpy(state, &out, std::min(state->size, sizeof out));
    return static_cast<int>(PGWAKE_OK);
  });
}

}  // extern "C"
