#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "client/src/abi/c_api_support.hpp"
#include "client/src/abi/records.hpp"
#include "client/src/shell/uncancelled.hpp"
#include "common/json_text.hpp"
#include "common/unicode.hpp"

// The calls that PGWAKE_1.1 added, for bindings and event loops above all: events in batches, and
// nothing that waits.
using namespace pgwake::client::abi;
namespace client = pgwake::client;

namespace {

constexpr std::size_t most_reason = 1'024;

void append(std::string& json, const char* name, std::uint64_t value) {
  json += std::string(",\"") + name + "\":" + std::to_string(value);
}

void append(std::string& json, const char* name, bool value) {
  json += std::string(",\"") + name + "\":" + (value ? "true" : "false");
}

std::string json_of(const client::snapshot& s) {
  std::string out = std::string(R"({"source":")") + client::to_string(s.source) + '"';
  append(out, "healthy", s.healthy);
  append(out, "handing_over", s.handing_over);
  append(out, "own_slot", s.slot);
  append(out, "channels", s.channels);
  append(out, "waiting", s.waiting);
  append(out, "waiting_bytes", s.waiting_bytes);
  append(out, "wakes", s.wakes);
  append(out, "coalesced", s.coalesced);
  append(out, "discarded", s.discarded);
  append(out, "gaps", s.gaps);
  append(out, "falls", s.falls);
  append(out, "handovers", s.handovers);
  append(out, "handovers_aborted", s.aborted);
  append(out, "hub_connects", s.hub_connects);
  append(out, "own_connects", s.own_connects);
  out += R"(,"reason":)";
  pgwake::append_json_string(out, pgwake::replace_bad_utf8(s.reason.substr(0, most_reason)));
  out += R"(,"hub":)";
  pgwake::append_json_string(out, pgwake::replace_bad_utf8(s.hub));
  return out + '}';
}

}  // namespace

extern "C" {

int pgwake_read(pgwake_handle* handle, void* buffer, size_t room, size_t* used, size_t max, int timeout_ms) {
  forget_error();
  if (used != nullptr) *used = 0;
  if (const int r = usable(handle); r != PGWAKE_OK) return r;
  if (buffer == nullptr || used == nullptr) return fail(PGWAKE_INVALID, "a null pointer");
  return guarded([&] {
    record_writer out({static_cast<unsigned char*>(buffer), room});
    const auto most = max != 0 ? max : std::numeric_limits<int>::max();
    const auto how = handle->worker->box().read([&](const client::event& e) { return out.write(e); }, most,
                                                until(timeout_ms));
    if (how == client::mailbox::outcome::closed) return closed();
    // Else a signal handler has forked meanwhile, and this is the child.
    if (how == client::mailbox::outcome::timeout) return handle->worker->inherited() ? usable(handle) : 0;
    *used = out.count() > 0 ? out.used() : out.needed();
    if (out.count() == 0)
      return fail(PGWAKE_INVALID, "the next event needs " + std::to_string(out.needed()) +
                                      " bytes, the buffer has " + std::to_string(room));
    return out.count();
  });
}

int pgwake_subscribe_start(pgwake_handle* handle, const char* const* channels, size_t count, int timeout_ms,
                           uint64_t id) {
  forget_error();
  if (const int r = usable(handle); r != PGWAKE_OK) return r;
  return guarded([&] {
    std::vector<std::string> names;
    if (const int r = names_of(channels, count, names); r != PGWAKE_OK || count == 0) return r;
    const auto how = handle->worker->box().start_subscribe(std::move(names), until(timeout_ms), id);
    if (how == client::mailbox::outcome::full)
      return fail(PGWAKE_NACK, "limit: too many answers to subscribes are owed or wait to be taken", "limit");
    return how == client::mailbox::outcome::closed ? closed() : static_cast<int>(PGWAKE_OK);
  });
}

int pgwake_wake_socket(pgwake_handle* handle) {
  forget_error();
  if (const int r = usable(handle); r != PGWAKE_OK) return r;
  return guarded([&] {
    const int fd = handle->worker->box().wake_socket();
    return fd >= 0 ? fd : fail(PGWAKE_SYSTEM, std::string("socketpair: ") + std::strerror(errno));
  });
}

int pgwake_reopen_subscribed(pgwake_handle* handle) {
  forget_error();
  if (const int r = forked(handle); r != PGWAKE_OK) return r;
  const client::uncancelled meanwhile;
  return guarded([&] {
    if (handle->worker == nullptr) return fail(PGWAKE_FORKED, "the handle was never open");
    auto kept = handle->worker->subscribed_at_fork();
    if (!kept)
      return fail(PGWAKE_SYSTEM,
                  "the fork came in the midst of the library's work, so what was subscribed is not known; "
                  "pgwake_reopen() and subscribe again");
    handle->worker = new client::worker(handle->settings, std::move(*kept));
    handle->taken = {};
    return static_cast<int>(PGWAKE_OK);
  });
}

int pgwake_state_json(pgwake_handle* handle, char* buffer, size_t room) {
  forget_error();
  if (const int r = usable(handle); r != PGWAKE_OK) return r;
  if (buffer == nullptr) return fail(PGWAKE_INVALID, "a null pointer");
  return guarded([&] {
    const auto json = json_of(handle->worker->box().state());
    if (json.size() >= room)
      return fail(PGWAKE_INVALID, "the buffer must have " + std::to_string(json.size() + 1) + " bytes");
    std::memcpy(buffer, json.c_str(), json.size() + 1);
    return static_cast<int>(json.size());
  });
}

}  // extern "C"
