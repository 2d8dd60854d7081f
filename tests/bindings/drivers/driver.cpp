// The driver of the C++ face: the lines of tests/bindings/README.md, obeyed with pgwake.hpp.
#include <poll.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "lines.h"
#include "pgwake/pgwake.hpp"

namespace {

using std::chrono::milliseconds;
using words = std::vector<std::string>;

struct worker {
  std::optional<pgwake::listener> listener;
  bool automatic = true;  // a call that answers FORKED reopens the handle and is made again
  std::thread thread;
  std::string thread_error;
};

std::map<std::string, std::unique_ptr<worker>> workers;

void text(std::string_view t) { lines_text(t.data(), t.size()); }
void named(const char* name, std::string_view t) {
  lines_raw((std::string(",\"") + name + "\":").c_str());
  text(t);
}

void say_error(const std::string& name, const std::string& why, std::string_view code = {},
               std::string_view channel = {}) {
  lines_raw("{\"error\":");
  text(name);
  named("text", why);
  named("code", code);
  named("channel", channel);
  lines_raw("}");
  lines_send();
}

std::string name_of(int result) { return result == PGWAKE_NACK ? "refused" : pgwake_result_name(result); }

void say_event(const pgwake::event& e) {
  lines_raw("{\"kind\":");
  text(e.is_wake() ? "wake" : e.is_state() ? "state" : e.is_refused() ? "refused" : "subscribed");
  named("source", pgwake_source_name(static_cast<int>(e.source())));
  named("gap", e.gap());
  lines_number("by", e.by());
  named("channel", e.channel());
  named("reason", e.reason());
  lines_raw(e.healthy() ? ",\"healthy\":true" : ",\"healthy\":false");
  lines_raw(e.utf8() ? ",\"utf8\":true" : ",\"utf8\":false");
  if (e.payload())
    named("payload", *e.payload());
  else
    lines_raw(",\"payload\":null");
  lines_raw("}");
}

// Makes the call, in a child that has not opened the handle anew once more.
template <class Call>
auto call(worker& w, Call what) {
  try {
    return what(*w.listener);
  } catch (const pgwake::error& e) {
    if (!e.forked() || !w.automatic) throw;
  }
  w.listener->reopen_subscribed();
  return what(*w.listener);
}

void open(worker& w, const words& values) {
  pgwake::options o;
  w.automatic = true;
  for (const auto& value : values) {
    const auto at = value.find('=');
    const auto name = value.substr(0, at);
    if (name == "reopen")
      w.automatic = value.substr(at + 1) == "auto";
    else if (name == "ignore_environment")
      o.ignore_environment();
    else
      o.set(name, value.substr(at + 1));
  }
  w.listener.emplace(o);
  lines_is(true);
}

void subscribe(worker& w, const words& channels, milliseconds timeout) {
  if (channels.size() == 1) {
    bool done = false;
    try {
      done = call(w, [&](auto& l) { return l.subscribe(channels[0], timeout); });
    } catch (const pgwake::error& e) {
      say_error(name_of(e.result()), e.what(), e.code(), channels[0]);
      return;
    }
    if (done)
      lines_is(true);
    else
      say_error("timeout", "");
    return;
  }
  const auto bad = call(w, [&](auto& l) { return l.subscribe(channels, timeout); });
  if (bad.empty())
    lines_is(true);
  else
    say_error(name_of(bad[0].second), pgwake_last_error(), pgwake_nack_code(), bad[0].first);
}

void next(worker& w, milliseconds timeout) {
  const auto e = call(w, [&](auto& l) { return l.next(timeout); });
  lines_raw("{\"is\":");
  if (e)
    say_event(*e);
  else
    lines_raw("null");
  lines_raw("}");
  lines_send();
}

void read(worker& w, std::size_t most) {
  pgwake::event_batch batch;
  call(w, [&](auto& l) { return l.read(batch, milliseconds(0), most); });
  lines_raw("{\"is\":[");
  bool first = true;
  for (const auto e : batch) {
    if (!std::exchange(first, false)) lines_raw(",");
    say_event(e);
  }
  lines_raw("]}");
  lines_send();
}

void readable(worker& w, int timeout) {
  pollfd look{call(w, [](auto& l) { return l.fd(); }), POLLIN, 0};
  lines_is(::poll(&look, 1, timeout) > 0);
}

void state(worker& w) {
  const auto json = call(w, [](auto& l) { return l.state_json(); });
  lines_raw(("{\"is\":" + json + "}").c_str());
  lines_send();
}

void wait_in_thread(worker& w) {
  w.thread = std::thread([&w] {
    try {
      for (;;) w.listener->next();
    } catch (const pgwake::error& e) {
      w.thread_error = name_of(e.result());
    }
  });
  lines_is(true);
}

void obey_one(worker& w, const std::string& verb, const words& rest) {
  const int number = rest.empty() ? 0 : std::atoi(rest[0].c_str());
  if (verb == "subscribe") return subscribe(w, words(rest.begin() + 1, rest.end()), milliseconds(number));
  if (verb == "next") return next(w, milliseconds(number));
  if (verb == "read") return read(w, static_cast<std::size_t>(number));
  if (verb == "readable") return readable(w, number);
  if (verb == "state") return state(w);
  if (verb == "thread") return wait_in_thread(w);
  if (verb == "join") {
    w.thread.join();
    return say_error(w.thread_error, "");
  }
  if (verb == "open") return open(w, rest);
  if (verb == "unsubscribe")
    for (const auto& channel : rest) call(w, [&](auto& l) { return l.unsubscribe(channel); });
  else if (verb == "reopen")
    w.listener->reopen_subscribed();
  else if (verb == "shutdown")
    w.listener->shutdown();
  else if (verb == "close")
    w.listener.reset();
  else
    std::exit(2);
  lines_is(true);
}

void obey(const lines_request& request) {
  if (request.count < 2) std::exit(2);
  const std::span all(request.words, request.count);
  auto& w = workers[all[1]];
  if (w == nullptr) w = std::make_unique<worker>();
  try {
    obey_one(*w, all[0], words(all.begin() + 2, all.end()));
  } catch (const pgwake::error& e) {
    say_error(name_of(e.result()), e.what(), e.code());
  }
}

}  // namespace

int main() {
  lines_request request;
  while (lines_read(&request) != 0)
    if (lines_process_request(&request) == 0) obey(request);
  return 0;
}
