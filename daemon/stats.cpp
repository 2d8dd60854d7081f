#include "daemon/stats.hpp"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>
#include <unistd.h>

#include <algorithm>

#include "common/frame.hpp"
#include "common/unicode.hpp"

namespace pgwaked {

using namespace pgwake;

namespace {

constexpr std::size_t frame_reserve = 4096;  // below the frame's limit

struct detail_level {
  bool channels_of_workers = true;
  std::size_t max_rows = SIZE_MAX;
};

class stats_writer {
 public:
  stats_writer(const engine& e, const stats_view& view, steady_time now, detail_level level)
      : engine_(e), view_(view), now_(now), level_(level) {}

  std::string write() {
    w_.StartObject();
    text("t", "stats");
    general();
    upstream();
    workers();
    channels();
    totals();
    limits();
    flag("truncated", level_.max_rows != SIZE_MAX || !level_.channels_of_workers);
    w_.EndObject();
    return {buffer_.GetString(), buffer_.GetSize()};
  }

 private:
  void text(const char* key, std::string_view value) {
    w_.Key(key);
    string(value);
  }
  void string(std::string_view value) {
    if (is_utf8(value)) {
      w_.String(value.data(), static_cast<rapidjson::SizeType>(value.size()));
    } else {
      const auto clean = replace_bad_utf8(value);
      w_.String(clean.data(), static_cast<rapidjson::SizeType>(clean.size()));
    }
  }
  void text_or_null(const char* key, const std::optional<std::string>& value) {
    if (value) return text(key, *value);
    null(key);
  }
  void null(const char* key) {
    w_.Key(key);
    w_.Null();
  }
  void number(const char* key, std::uint64_t value) {
    w_.Key(key);
    w_.Uint64(value);
  }
  void flag(const char* key, bool value) {
    w_.Key(key);
    w_.Bool(value);
  }
  void seconds(const char* key, std::chrono::steady_clock::duration d) {
    w_.Key(key);
    w_.Double(static_cast<double>(std::chrono::duration_cast<millis>(d).count()) / 1000);
  }

  void general() {
    const auto& up = engine_.the_upstream();
    text("version", engine_.settings().version);
    text("hub", engine_.settings().hub_uuid);
    number("pid", static_cast<std::uint64_t>(getpid()));
    seconds("uptime_s", now_ - view_.started);
    flag("healthy", up.healthy() && !engine_.draining());
    text_or_null("reason", engine_.draining() ? std::optional<std::string>("draining")
                           : up.healthy()     ? std::nullopt
                                              : std::optional(up.reason()));
    text_or_null("detail", up.detail().empty() ? std::nullopt : std::optional(up.detail()));
    flag("draining", engine_.draining());
  }

  static const char* state_name(upstream::state s) {
    switch (s) {
      case upstream::state::idle:
        return "stopped";
      case upstream::state::waiting:
        return "waiting";
      case upstream::state::connecting:
        return "connecting";
      case upstream::state::checking:
        return "checking";
      case upstream::state::live:
        return "live";
    }
    return "stopped";
  }

  void upstream() {
    const auto& up = engine_.the_upstream();
    w_.Key("upstream");
    w_.StartObject();
    text("state", state_name(up.now_in()));
    text_or_null("server", up.session().server.empty() ? std::nullopt : std::optional(up.session().server));
    text_or_null("database", engine_.database());
    text_or_null("system_id", engine_.system_id());
    const bool live = up.live();
    if (live)
      number("backend_pid", static_cast<std::uint64_t>(up.session().backend_pid));
    else
      null("backend_pid");
    if (live)
      number("server_version", static_cast<std::uint64_t>(up.session().server_version));
    else
      null("server_version");
    if (up.live_since())
      seconds("since_s", now_ - *up.live_since());
    else
      null("since_s");
    number("reconnects", up.reconnects());
    number("attempts", up.attempts());
    flag("pooler", up.pooled());
    if (up.queue_usage()) {
      w_.Key("queue_usage");
      w_.Double(*up.queue_usage());
    } else {
      null("queue_usage");
    }
    number("channels_listened", up.plan().active_count());
    w_.EndObject();
  }

  bool may_see(const engine::member& m) const { return view_.privileged || m.who.uid == view_.uid; }

  void workers() {
    w_.Key("workers");
    w_.StartArray();
    std::size_t rows = 0;
    for (const auto& v : engine_.the_hub().workers()) {
      if (v.id == view_.asker || rows++ >= level_.max_rows) continue;
      worker(v, engine_.members().at(v.id));
    }
    w_.EndArray();
  }

  void worker(const hub::worker_view& v, const engine::member& m) {
    const bool seen = may_see(m);
    w_.StartObject();
    number("id", v.id);
    number("pid", static_cast<std::uint64_t>(m.who.pid));
    number("uid", m.who.uid);
    text_or_null("name", seen && !m.name.empty() ? std::optional(m.name) : std::nullopt);
    text("dialect", v.dialect == 0 ? "v0" : "v1");
    number("channel_count", v.channels.size());
    if (seen && level_.channels_of_workers) {
      w_.Key("channels");
      w_.StartArray();
      for (const auto& c : v.channels) string(c);
      w_.EndArray();
    }
    number("outbox_bytes", v.bytes);
    number("outbox_frames", v.frames);
    number("delivered", v.delivered);
    number("coalesced", v.coalesced);
    w_.Key("oldest_ms");
    if (v.frames > 0)
      w_.Uint64(static_cast<std::uint64_t>(std::chrono::duration_cast<millis>(now_ - v.oldest).count()));
    else
      w_.Null();
    seconds("connected_s", now_ - m.since);
    w_.EndObject();
  }

  // Names that the asker may see: its own workers', or all.
  void channels() {
    w_.Key("channels");
    w_.StartArray();
    std::vector<std::string_view> own;
    if (!view_.privileged) {
      for (const auto& v : engine_.the_hub().workers())
        if (may_see(engine_.members().at(v.id))) own.insert(own.end(), v.channels.begin(), v.channels.end());
      std::sort(own.begin(), own.end());
    }
    std::size_t rows = 0;
    for (const auto& c : engine_.the_hub().channels()) {
      if (!view_.privileged && !std::binary_search(own.begin(), own.end(), c.name)) continue;
      if (rows++ >= level_.max_rows) break;
      w_.StartObject();
      text("name", c.name);
      number("workers", c.workers);
      flag("active", c.active);
      w_.EndObject();
    }
    w_.EndArray();
  }

  void totals() {
    const auto& h = engine_.the_hub();
    const auto& t = h.counted();
    w_.Key("totals");
    w_.StartObject();
    number("workers", h.worker_count() - (engine_.members().contains(view_.asker) ? 1 : 0));
    number("workers_ever", t.workers);
    number("workers_refused", view_.refused);
    number("channels", h.channel_count());
    number("notifications", t.notifications);
    number("unrouted", t.unrouted);
    number("delivered", t.delivered);
    number("coalesced", t.coalesced);
    number("gaps", t.gaps);
    number("acks", t.acks);
    number("nacks", t.nacks);
    number("fences", t.fences);
    number("evicted", t.evicted);
    number("frames_received", engine_.counts().frames);
    number("unknown_frames", engine_.counts().unknown_frames);
    number("protocol_errors", engine_.counts().protocol_errors);
    number("outbox_bytes", h.outbox_bytes());
    w_.EndObject();
  }

  void limits() {
    const auto& s = engine_.settings();
    w_.Key("limits");
    w_.StartObject();
    number("max_workers", s.max_workers);
    number("max_channels", s.limits.max_channels);
    number("outbox_max_bytes", s.limits.outbox_max_bytes);
    number("outbox_max_frames", s.limits.outbox_max_frames);
    number("outbox_total_max_bytes", s.limits.outbox_total_max_bytes);
    w_.EndObject();
  }

  const engine& engine_;
  const stats_view& view_;
  steady_time now_;
  detail_level level_;
  rapidjson::StringBuffer buffer_;
  rapidjson::Writer<rapidjson::StringBuffer> w_{buffer_};
};

}  // namespace

std::string stats_json(const engine& e, const stats_view& view, steady_time now) {
  for (const auto level : {detail_level{true, SIZE_MAX}, detail_level{false, SIZE_MAX},
                           detail_level{false, 4000}, detail_level{false, 100}}) {
    auto json = stats_writer(e, view, now, level).write();
    if (json.size() + frame_reserve <= max_frame_from_hub) return json;
  }
  return stats_writer(e, view, now, {false, 0}).write();
}

}  // namespace pgwaked
