#include "daemon/core/worker_protocol.hpp"

#include <algorithm>
#include <utility>

#include "common/message_codec.hpp"

namespace pgwaked {

using namespace pgwake;

namespace {

// What v0 does not know: there its `t` alone counts.
bool is_of_v1(const from_worker& message) {
  const auto* bad = std::get_if<unknown_message>(&message);
  return bad != nullptr && (bad->t == "ping" || bad->t == "stats" || bad->t == "control");
}

}  // namespace

bool channel_access::allows(std::string_view channel) const {
  return all ||
         std::any_of(globs.begin(), globs.end(), [&](const auto& g) { return glob_match(g, channel); });
}

void worker_protocol::bytes(std::string_view data) {
  if (state_ != state::broken) reader_.append(data);
}

bool worker_protocol::next(steady_time now, std::vector<event>& out) {
  if (state_ == state::broken) return false;
  std::string_view body;
  switch (reader_.next(body)) {
    case frame_reader::outcome::need_more:
      break;
    case frame_reader::outcome::empty:
      fail("a frame of length 0", out);
      return true;
    case frame_reader::outcome::too_long:
      fail("a frame of more than " + std::to_string(max_frame_from_worker) + " bytes", out);
      return true;
    case frame_reader::outcome::frame:
      finished_one_ = true;
      frame(body, out);
      return true;
  }
  const bool anew = std::exchange(finished_one_, false) || !begun_;
  reader_.rest();
  if (!reader_.mid_frame())
    begun_.reset();
  else if (anew)
    begun_ = now;
  return false;
}

void worker_protocol::bytes(std::string_view data, steady_time now, std::vector<event>& out) {
  bytes(data);
  while (next(now, out)) {
  }
}

void worker_protocol::frame(std::string_view body, std::vector<event>& out) {
  from_worker message;
  std::string why;
  const bool good = decode(body, message, why);
  const bool first = state_ == state::fresh;
  state_ = state::talking;
  if (!good && !(dialect_ == dialect::v0 && is_of_v1(message))) return fail(std::move(why), out);
  take(message, first, out);
}

void worker_protocol::take(from_worker& message, bool first, std::vector<event>& out) {
  if (auto* h = std::get_if<hello>(&message)) {
    if (!first) return fail("`hello` must be the first frame", out);
    dialect_ = dialect::v1;
    out.emplace_back(greeted{std::move(*h)});
    return;
  }
  if (first) out.emplace_back(spoke{});
  if (auto* s = std::get_if<sub>(&message)) {
    take_sub(s->q, out);
  } else if (auto* u = std::get_if<unsub>(&message)) {
    if (u->q.is_string()) out.emplace_back(unsubscribe{channel_of(u->q.text)});
  } else if (auto* other = std::get_if<unknown_message>(&message)) {
    out.emplace_back(ignored{std::move(other->t)});
  } else if (dialect_ == dialect::v0) {
    // ping, stats and control belong to v1: to v0 they are unknown frames.
    const bool pings = std::holds_alternative<ping>(message);
    out.emplace_back(ignored{pings                                            ? "ping"
                             : std::holds_alternative<stats_request>(message) ? "stats"
                                                                              : "control"});
  } else if (auto* p = std::get_if<ping>(&message)) {
    out.emplace_back(pinged{p->id});
  } else if (auto* c = std::get_if<control_request>(&message)) {
    out.emplace_back(asked_control{std::move(*c)});
  } else {
    out.emplace_back(asked_stats{});
  }
}

std::string worker_protocol::channel_of(const std::string& q) const {
  return dialect_ == dialect::v1 ? q : queues_.channel(q);
}

void worker_protocol::take_sub(wire_name& q, std::vector<event>& out) {
  const auto no = [&](code why, std::string reason) {
    out.emplace_back(reject{nack{std::move(q), why, std::move(reason), ""}});
  };
  if (!q.is_string()) return no(code::invalid_channel, "`q` must be a string");
  if (q.text.empty()) return no(code::invalid_channel, "the name is empty");
  auto channel = channel_of(q.text);
  if (auto fault = channel_fault(channel)) return no(code::invalid_channel, std::move(*fault));
  if (channel.starts_with(reserved_prefix))
    return no(code::forbidden, "channels that begin with `pgwake.` are closed to workers");
  if (!access_.allows(channel))
    return no(code::forbidden, "`allow` does not let this worker have the channel");
  out.emplace_back(subscribe{std::move(channel)});
}

void worker_protocol::fail(std::string reason, std::vector<event>& out) {
  state_ = state::broken;
  begun_.reset();
  out.emplace_back(broken{std::move(reason)});
}

void worker_protocol::tick(steady_time now, std::vector<event>& out) {
  if (const auto at = deadline(); at && now >= *at) fail("a frame was begun and not finished in time", out);
}

std::optional<steady_time> worker_protocol::deadline() const {
  if (!begun_) return std::nullopt;
  return *begun_ + frame_deadline_;
}

}  // namespace pgwaked
