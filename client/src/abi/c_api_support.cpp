#include "client/src/abi/c_api_support.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>

#include "client/src/shell/fork_guard.hpp"
#include "common/unicode.hpp"

namespace pgwake::client::abi {

self_reference::self_reference() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&pgwake_version), &info) != 0 && info.dli_fname != nullptr)
    library_ = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
}

self_reference::~self_reference() {
  if (library_ != nullptr) dlclose(library_);
}

namespace {

// Plain data: a destructor of a thread's own would keep the library from being unloaded.
thread_local char last_error[512] = "";
thread_local const char* last_code = "";

}  // namespace

int fail(int result, std::string_view text, const char* code) noexcept {
  const auto size = std::min(text.size(), sizeof last_error - 1);
  std::memcpy(last_error, text.data(), size);
  last_error[size] = '\0';
  last_code = code;
  return result;
}

void forget_error() noexcept {
  last_error[0] = '\0';
  last_code = "";
}

int closed() noexcept { return fail(PGWAKE_CLOSED, "the handle is being closed"); }

int usable(const pgwake_handle* handle) {
  if (handle == nullptr) return fail(PGWAKE_INVALID, "no handle");
  fork_guard::notice_raw_fork();
  if (handle->worker == nullptr || handle->worker->inherited())
    return fail(PGWAKE_FORKED, "this handle was opened before fork(); pgwake_reopen() it in the child");
  return PGWAKE_OK;
}

int forked(const pgwake_handle* handle) {
  if (handle == nullptr) return fail(PGWAKE_INVALID, "no handle");
  if (usable(handle) == PGWAKE_OK) return fail(PGWAKE_INVALID, "the handle was opened by this very process");
  forget_error();
  return PGWAKE_OK;
}

std::optional<steady_time> until(int timeout_ms) {
  if (timeout_ms < 0) return std::nullopt;
  if (timeout_ms == 0) return steady_time::min();  // long past: not even the clock is asked
  return std::chrono::steady_clock::now() + millis{timeout_ms};
}

int names_of(const char* const* channels, std::size_t count, std::vector<std::string>& names) {
  if (channels == nullptr && count > 0) return fail(PGWAKE_INVALID, "a null pointer");
  names.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (channels[i] == nullptr) return fail(PGWAKE_INVALID, "a channel is a null pointer");
    names.emplace_back(channels[i]);
  }
  return PGWAKE_OK;
}

int result_of(answer::verdict how) {
  switch (how) {
    case answer::verdict::ok:
      return PGWAKE_OK;
    case answer::verdict::timeout:
      return PGWAKE_TIMEOUT;
    case answer::verdict::nack:
      return PGWAKE_NACK;
    case answer::verdict::ended:
      return PGWAKE_CLOSED;
  }
  return PGWAKE_SYSTEM;
}

int told(const answer& a) {
  switch (a.how) {
    case answer::verdict::ok:
      return PGWAKE_OK;
    case answer::verdict::timeout:
      return fail(PGWAKE_TIMEOUT, a.reason.empty() ? "no answer within the deadline"
                                                   : "no answer within the deadline: " + a.reason);
    case answer::verdict::nack:
      return fail(PGWAKE_NACK, std::string(to_string(a.why)) + ": " + a.reason, to_string(a.why).data());
    case answer::verdict::ended:
      return fail(PGWAKE_CLOSED, "unsubscribed meanwhile, or the handle is being closed");
  }
  return PGWAKE_SYSTEM;
}

int source_of(side s) {
  return s == side::hub ? PGWAKE_SOURCE_HUB : s == side::own ? PGWAKE_SOURCE_OWN : PGWAKE_SOURCE_NONE;
}

int kind_of(event::kind kind) {
  switch (kind) {
    case event::kind::wake:
      return PGWAKE_EVENT_WAKE;
    case event::kind::state:
      return PGWAKE_EVENT_STATE;
    case event::kind::refused:
      return PGWAKE_EVENT_REFUSED;
    case event::kind::subscribed:
      return PGWAKE_EVENT_SUBSCRIBED;
  }
  return 0;
}

int gap_of(const event& e) {
  if (e.forked) return PGWAKE_GAP_FORKED;
  switch (e.gap) {
    case gap_cause::none:
      return PGWAKE_GAP_NONE;
    case gap_cause::reconnect:
      return PGWAKE_GAP_RECONNECT;
    case gap_cause::hub_lost:
      return PGWAKE_GAP_HUB_LOST;
    case gap_cause::overflow:
      return PGWAKE_GAP_OVERFLOW;
  }
  return PGWAKE_GAP_NONE;
}

std::uint32_t flags_of(const event& e) {
  std::uint32_t flags = 0;
  if (e.payload) flags |= PGWAKE_FLAG_PAYLOAD;
  if (e.healthy) flags |= PGWAKE_FLAG_HEALTHY;
  if (!is_utf8(e.channel) || (e.payload && !is_utf8(*e.payload)) || !is_utf8(e.reason))
    flags |= PGWAKE_FLAG_NOT_UTF8;
  return flags;
}

}  // namespace pgwake::client::abi

extern "C" {

const char* pgwake_last_error(void) { return pgwake::client::abi::last_error; }

const char* pgwake_nack_code(void) { return pgwake::client::abi::last_code; }

}  // extern "C"
