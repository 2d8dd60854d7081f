#include "daemon/app/stats.hpp"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "common/frame.hpp"
#include "common/unicode.hpp"

namespace pgwaked {

using namespace pgwake;

namespace {

constexpr std::size_t frame_reserve = 4096;  // below the frame's limit

constexpr std::size_t slice = 512;  // rows and names; a slice takes well below a millisecond

// How much is shown, from all to what always fits.
struct detail_level {
  std::size_t channels_of_worker;
  std::size_t max_rows;
};
constexpr std::array levels{detail_level{4'096, SIZE_MAX}, detail_level{0, SIZE_MAX}, detail_level{0, 4'000},
                            detail_level{0, 100}, detail_level{0, 0}};

}  // namespace

class stats_maker::writer {
 public:
  writer(const engine& e, const stats_view& view, detail_level level)
      : engine_(e), view_(view), level_(level) {
    for (const auto& [id, m] : e.members())
      if (!m.operates && !is_asker(id)) ids_.push_back(id);
    std::sort(ids_.begin(), ids_.end());
    w_.StartObject();
    text("t", "stats");
  }

  // True when all is written.
  bool step(steady_time now) {
    now_ = now;
    switch (part_) {
      case part::head:
        general();
        upstream();
        w_.Key("workers");
        w_.StartArray();
        part_ = part::workers;
        return false;
      case part::workers:
        if (!workers()) return false;
        w_.EndArray();
        begin_channels();
        part_ = part::channels;
        return false;
      case part::channels:
        if (!channels()) return false;
        rows_writer_.EndArray();
        w_.Key("channels");
        w_.RawValue(rows_.GetString(), rows_.GetSize(), rapidjson::kArrayType);
        totals();
        limits();
        flag("truncated", truncated_ || level_.max_rows != SIZE_MAX || level_.channels_of_worker == 0);
        w_.EndObject();
        return true;
    }
    return true;
  }

  std::string result() const { return {buffer_.GetString(), buffer_.GetSize()}; }

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
    flag("full", up.full());
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
    text_or_null("user", up.session().user.empty() ? std::nullopt : std::optional(up.session().user));
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

  bool may_see(const engine::member& m) const { return view_.eyes.privileged || m.who.uid == view_.eyes.uid; }
  bool is_asker(worker_id id) const {
    return std::binary_search(view_.askers.begin(), view_.askers.end(), id);
  }

  // True when there are no more.
  bool workers() {
    for (std::size_t done = 0; done < slice; ++next_) {
      if (next_ >= ids_.size() || rows_written_ >= level_.max_rows) return true;
      const auto at = engine_.members().find(ids_[next_]);
      const auto v = engine_.the_hub().view(ids_[next_], names_of(at));
      if (!v || at == engine_.members().end()) continue;  // it left meanwhile
      worker(*v, at->second);
      ++rows_written_;
      done += 1 + v->channels.size();
    }
    return false;
  }

  using member_table = std::unordered_map<worker_id, engine::member>;
  std::size_t names_of(member_table::const_iterator at) const {
    if (at == engine_.members().end() || !may_see(at->second)) return 0;
    return view_.eyes.privileged ? level_.channels_of_worker : SIZE_MAX;
  }

  void worker(const hub::worker_view& v, const engine::member& m) {
    const bool seen = may_see(m);
    w_.StartObject();
    number("id", v.id);
    number("pid", static_cast<std::uint64_t>(m.who.pid));
    number("uid", m.who.uid);
    const auto [state, now_named] = engine_.door().view(v.id);
    const auto& name = state.empty() ? m.name : now_named;
    text_or_null("name", seen && !name.empty() ? std::optional(name) : std::nullopt);
    text("dialect", v.dialect == 0 ? "v0" : v.dialect == 1 ? "v1" : "pg");
    if (!state.empty()) text("state", state);
    number("channel_count", v.channel_count);
    if (seen && !view_.eyes.privileged)
      for (const auto channel : v.channels) own_.emplace(channel);
    if (seen && level_.channels_of_worker > 0) {
      const auto shown = std::min(v.channels.size(), level_.channels_of_worker);
      truncated_ = truncated_ || shown < v.channel_count;
      w_.Key("channels");
      w_.StartArray();
      for (std::size_t i = 0; i < shown; ++i) string(v.channels[i]);
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

  void begin_channels() {
    rows_.Clear();
    rows_writer_.Reset(rows_);
    rows_writer_.StartArray();
    place_ = 0;
    places_ = engine_.the_hub().channel_places();
    rows_written_ = 0;
  }

  // Names that the asker may see: its own workers', or all. True when there are no more.
  bool channels() {
    if (places_ != engine_.the_hub().channel_places()) begin_channels();  // the table grew
    std::vector<hub::channel_view> some;
    const auto next = engine_.the_hub().channels(place_, slice, some);
    for (const auto& c : some) {
      if (!view_.eyes.privileged && !own_.contains(std::string(c.name))) continue;
      if (rows_written_++ >= level_.max_rows) return true;
      channel(c);
    }
    place_ = next.value_or(0);
    return !next;
  }

  void channel(const hub::channel_view& c) {
    auto& w = rows_writer_;
    const auto name = is_utf8(c.name) ? std::string(c.name) : replace_bad_utf8(c.name);
    w.StartObject();
    w.Key("name");
    w.String(name.data(), static_cast<rapidjson::SizeType>(name.size()));
    w.Key("workers");
    w.Uint64(c.workers);
    w.Key("active");
    w.Bool(c.active);
    w.EndObject();
  }

  void totals() {
    const auto& h = engine_.the_hub();
    const auto& t = h.counted();
    w_.Key("totals");
    w_.StartObject();
    number("workers", ids_.size());
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
    number("outbox_bytes", h.held_bytes());
    w_.EndObject();
  }

  void limits() {
    const auto& s = engine_.settings();
    w_.Key("limits");
    w_.StartObject();
    const owner eyes{view_.eyes.uid, view_.eyes.privileged};
    number("max_workers", s.max_workers);
    number("max_workers_per_user", std::min(s.workers_of_user.of(eyes), s.max_workers));
    number("max_channels", s.limits.max_channels);
    number("max_channels_per_user", std::min(s.limits.channels_of_user.of(eyes), s.limits.max_channels));
    number("outbox_max_bytes", s.limits.outbox_max_bytes);
    number("outbox_max_frames", s.limits.outbox_max_frames);
    number("outbox_total_max_bytes", s.limits.outbox_total_max_bytes);
    w_.EndObject();
  }

  enum class part { head, workers, channels };

  const engine& engine_;
  const stats_view& view_;
  steady_time now_{};
  detail_level level_;
  part part_ = part::head;
  std::vector<worker_id> ids_;  // of workers, when it was begun
  std::size_t next_ = 0;
  std::size_t rows_written_ = 0;
  std::unordered_set<std::string> own_;  // channels of the asker's workers, unless it may see all
  std::size_t place_ = 0;
  std::size_t places_ = 0;
  bool truncated_ = false;
  rapidjson::StringBuffer buffer_;
  rapidjson::Writer<rapidjson::StringBuffer> w_{buffer_};
  rapidjson::StringBuffer rows_;
  rapidjson::Writer<rapidjson::StringBuffer> rows_writer_{rows_};
};

stats_maker::stats_maker(const engine& e, stats_view view) : engine_(&e), view_(std::move(view)) {
  std::sort(view_.askers.begin(), view_.askers.end());
}
stats_maker::~stats_maker() = default;

bool stats_maker::step(steady_time now) {
  if (!writer_) writer_ = std::make_unique<writer>(*engine_, view_, levels[level_]);
  if (!writer_->step(now)) return false;
  done_ = writer_->result();
  writer_.reset();
  if (done_.size() + frame_reserve <= max_frame_from_hub || level_ + 1 == levels.size()) return true;
  ++level_;
  return false;
}

std::string stats_maker::take() { return std::move(done_); }

std::string stats_json(const engine& e, const stats_view& view, steady_time now) {
  stats_maker maker(e, view);
  while (!maker.step(now)) {
  }
  return maker.take();
}

}  // namespace pgwaked
