#pragma once

#include <cstddef>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "client/src/shell/worker.hpp"
#include "pgwake/pgwake.h"

struct pgwake_options {
  pgwake::client::values said;
  bool ignore_environment = false;
};

namespace pgwake::client::abi {

// A reference to the library that this code is in. While a handle lives its thread runs here, and a plug-in
// host may unload the library without closing it. Empty in a program that the library is linked into.
class self_reference {
 public:
  self_reference();
  self_reference(const self_reference&) = delete;
  self_reference& operator=(const self_reference&) = delete;
  ~self_reference();
  void* release() { return std::exchange(library_, nullptr); }

 private:
  void* library_ = nullptr;
};

}  // namespace pgwake::client::abi

struct pgwake_handle {
  pgwake::client::abi::self_reference library;
  pgwake::client::settings settings;
  pgwake::client::worker* worker = nullptr;
  pgwake::client::event taken;
  pgwake_event view{};
};

// What the functions of the C ABI have in common. Nothing thrown inside gets out of them.
namespace pgwake::client::abi {

// Keeps `text`, and `code` of a refusal, for this thread, and answers `result`.
int fail(int result, std::string_view text, const char* code = "") noexcept;
void forget_error() noexcept;
int closed() noexcept;

template <class Body>
int guarded(Body&& body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return fail(PGWAKE_NOMEM, "out of memory");
  } catch (const std::system_error& e) {
    return fail(PGWAKE_SYSTEM, e.what());
  } catch (const std::exception& e) {
    return fail(PGWAKE_SYSTEM, e.what());
  } catch (...) {
    return fail(PGWAKE_SYSTEM, "an unknown exception");
  }
}

// What every call on a handle begins with.
int usable(const pgwake_handle* handle);
// PGWAKE_OK if the handle is another process's, to be reopened here.
int forked(const pgwake_handle* handle);

std::optional<steady_time> until(int timeout_ms);
// The caller's channels, copied; PGWAKE_INVALID: one of the pointers is null.
int names_of(const char* const* channels, std::size_t count, std::vector<std::string>& names);

// How a subscribe ended, as a result; told() is for this thread's last error as well.
int result_of(answer::verdict how);
int told(const answer& a);

int source_of(side s);
int kind_of(event::kind kind);
int gap_of(const event& e);
std::uint32_t flags_of(const event& e);

}  // namespace pgwake::client::abi
