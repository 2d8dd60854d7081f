#include "daemon/metrics/text.hpp"

#include <array>
#include <charconv>
#include <chrono>

#include "common/unicode.hpp"

namespace pgwaked {

using namespace pgwake;

namespace {

void append(std::string& out, std::uint64_t value) { out += std::to_string(value); }

// The shortest decimal that reads back the same, whatever the locale; an exponent only below 0.0001.
void append(std::string& out, double value) {
  std::array<char, 32> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general).ptr;
  out.append(text.data(), end);
}

void append_label_value(std::string& out, std::string_view value) {
  const auto clean = is_utf8(value) ? std::string(value) : replace_bad_utf8(value);
  for (const char c : clean) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
}

// OpenMetrics wants bounds as floating point numbers: 1.0, not 1.
std::string bound_text(std::int64_t ns) {
  std::string text;
  append(text, static_cast<double>(ns) / 1e9);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

double seconds(std::chrono::steady_clock::duration d) { return std::chrono::duration<double>(d).count(); }

// Where one metric's row puts its samples.
class samples {
 public:
  samples(std::string& out, std::string_view name) : out_(out), name_(name) {}

  struct label {
    std::string_view name;
    std::string_view value;
  };

  template <class Number>
  void put(Number value, std::initializer_list<label> labels = {}) {
    out_ += name_;
    char before = '{';
    for (const auto& l : labels) {
      out_ += before;
      out_.append(l.name).append("=\"");
      append_label_value(out_, l.value);
      out_ += '"';
      before = ',';
    }
    if (before == ',') out_ += '}';
    out_ += ' ';
    append(out_, value);
    out_ += '\n';
  }

  void put(const duration_histogram& h) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < h.counts().size(); ++i) {
      sum += h.counts()[i];
      const bool last = i == h.bounds_ns.size();
      out_.append(name_).append("_bucket{le=\"").append(last ? "+Inf" : bound_text(h.bounds_ns[i]));
      out_ += "\"} ";
      append(out_, sum);
      out_ += '\n';
    }
    out_.append(name_).append("_sum ");
    append(out_, h.sum_seconds());
    out_.append("\n").append(name_).append("_count ");
    append(out_, sum);
    out_ += '\n';
  }

 private:
  std::string& out_;
  std::string_view name_;
};

// What several rows look at, found once.
struct look {
  const metrics_view& view;
  hub::crowd crowd;

  const engine& e() const { return view.hub; }
  const hub& h() const { return view.hub.the_hub(); }
  const hub::totals& totals() const { return h().counted(); }
  const hub::limits& limits() const { return e().settings().limits; }
  const upstream& up() const { return view.hub.the_upstream(); }
};

std::uint64_t one_if(bool yes) { return yes ? 1 : 0; }

struct state_name {
  upstream::state state;
  std::string_view name;
};
constexpr std::array<state_name, 5> states{{{upstream::state::idle, "stopped"},
                                            {upstream::state::waiting, "waiting"},
                                            {upstream::state::connecting, "connecting"},
                                            {upstream::state::checking, "checking"},
                                            {upstream::state::live, "live"}}};

bool is_healthy(const engine& e) { return e.the_upstream().healthy() && !e.draining(); }
std::string reason_of(const engine& e) { return e.draining() ? "draining" : e.the_upstream().reason(); }

void put_info(const look& l, samples& out) {
  const auto version = l.up().live() ? std::to_string(l.up().session().server_version) : std::string();
  out.put(std::uint64_t{1}, {{"version", l.e().settings().version},
                             {"host", l.view.host},
                             {"hub", l.e().settings().hub_uuid},
                             {"database", l.e().database().value_or("")},
                             {"system_id", l.e().system_id().value_or("")},
                             {"server_version", version}});
}

// Those that any hub may meet begin at 0, so that the first one is an increase.
void put_failures(const look& l, samples& out) {
  auto counts = l.view.failed_attempts;
  for (const auto* usual : {"connecting", "login"}) counts.try_emplace(usual, 0);
  for (const auto& [reason, count] : counts) out.put(count, {{"reason", reason}});
}

struct row {
  metric_description what;
  void (*put)(const look&, samples&);
};

using k = metric_kind;

constexpr std::array rows{
    row{{"pgwaked_info", k::info, "", "version,host,hub,database,system_id,server_version",
         "Which hub this is and what it serves; empty where the upstream has not told yet."},
        put_info},
    row{{"pgwaked_uptime_seconds", k::gauge, "seconds", "", "Time since the hub started."},
        [](const look& l, samples& out) { out.put(seconds(l.view.now - l.view.started)); }},

    row{{"pgwaked_healthy", k::gauge, "", "",
         "1 while every subscription is served: the upstream is live, every channel is listened to, and "
         "the hub is not about to stop."},
        [](const look& l, samples& out) { out.put(one_if(is_healthy(l.e()))); }},
    row{{"pgwaked_unhealthy_reason", k::gauge, "", "reason",
         "1 for the reason why the hub is not healthy, as status and the log name it; absent while healthy."},
        [](const look& l, samples& out) {
          if (!is_healthy(l.e())) out.put(std::uint64_t{1}, {{"reason", reason_of(l.e())}});
        }},
    row{{"pgwaked_draining", k::gauge, "", "", "1 while the hub is about to stop and workers move away."},
        [](const look& l, samples& out) { out.put(one_if(l.e().draining())); }},

    row{{"pgwaked_upstream_state", k::gauge, "", "state",
         "1 for the state that the connection to PostgreSQL is in, 0 for the others."},
        [](const look& l, samples& out) {
          for (const auto& s : states) out.put(one_if(l.up().now_in() == s.state), {{"state", s.name}});
        }},
    row{{"pgwaked_upstream_session_seconds", k::gauge, "seconds", "",
         "Age of the session with PostgreSQL that serves now; absent while there is none."},
        [](const look& l, samples& out) {
          if (l.up().live_since()) out.put(seconds(l.view.now - *l.up().live_since()));
        }},
    row{{"pgwaked_upstream_reconnects_total", k::counter, "", "",
         "Sessions with PostgreSQL that replaced a lost one."},
        [](const look& l, samples& out) { out.put(l.up().reconnects()); }},
    row{{"pgwaked_upstream_attempts_total", k::counter, "", "",
         "Attempts to connect to PostgreSQL, failed ones included."},
        [](const look& l, samples& out) { out.put(l.up().attempts()); }},
    row{{"pgwaked_upstream_failures_total", k::counter, "", "reason",
         "Attempts to connect to PostgreSQL that led to no session that serves, by the reason."},
        put_failures},
    row{{"pgwaked_upstream_certificate_expiry_timestamp_seconds", k::gauge, "seconds", "",
         "When the certificate that the server showed to the present session ends, in seconds since 1970; "
         "absent without TLS."},
        [](const look& l, samples& out) {
          if (l.up().live_since() && l.view.certificate_ends) out.put(*l.view.certificate_ends);
        }},
    row{{"pgwaked_upstream_pooler", k::gauge, "", "",
         "1 while the session goes through a pooler, which allow_session_pooler admits."},
        [](const look& l, samples& out) { out.put(one_if(l.up().pooled())); }},
    row{{"pgwaked_upstream_queue_usage_ratio", k::gauge, "ratio", "",
         "How full PostgreSQL's notify queue is, for the whole cluster, as last probed; at 1 NOTIFY fails."},
        [](const look& l, samples& out) {
          if (l.up().queue_usage()) out.put(*l.up().queue_usage());
        }},
    row{{"pgwaked_upstream_channels_listened", k::gauge, "", "",
         "Channels that the live session listens to, lingering ones included."},
        [](const look& l, samples& out) { out.put(std::uint64_t{l.up().plan().active_count()}); }},

    row{{"pgwaked_workers", k::gauge, "", "dialect", "Workers connected, by the dialect they speak."},
        [](const look& l, samples& out) {
          out.put(std::uint64_t{l.crowd.by_dialect[0]}, {{"dialect", "v0"}});
          out.put(std::uint64_t{l.crowd.by_dialect[1]}, {{"dialect", "v1"}});
          out.put(std::uint64_t{l.crowd.by_dialect[2]}, {{"dialect", "pg"}});
        }},
    row{{"pgwaked_workers_limit", k::gauge, "", "",
         "Workers that are let in at one time: max_workers, or what the descriptor limit leaves."},
        [](const look& l, samples& out) { out.put(std::uint64_t{l.e().settings().max_workers}); }},
    row{{"pgwaked_workers_joined_total", k::counter, "", "", "Workers that were ever let in."},
        [](const look& l, samples& out) { out.put(l.totals().workers); }},
    row{{"pgwaked_workers_refused_total", k::counter, "", "",
         "Workers that were turned away: the hub was full, or allow does not admit them."},
        [](const look& l, samples& out) { out.put(l.view.refused); }},
    row{{"pgwaked_workers_evicted_total", k::counter, "", "",
         "Workers whose connection was closed because they read too slowly (the log says who)."},
        [](const look& l, samples& out) { out.put(l.totals().evicted); }},
    row{{"pgwaked_workers_behind", k::gauge, "", "",
         "Workers whose socket is full at the moment, so that frames wait for them."},
        [](const look& l, samples& out) { out.put(std::uint64_t{l.crowd.behind}); }},
    row{{"pgwaked_worker_behind_seconds", k::gauge, "seconds", "",
         "How long the oldest frame that waits for any worker has waited; 0 if none does."},
        [](const look& l, samples& out) {
          out.put(l.crowd.oldest ? seconds(l.view.now - *l.crowd.oldest) : 0.0);
        }},

    row{{"pgwaked_channels", k::gauge, "", "", "Channels that workers subscribe to."},
        [](const look& l, samples& out) { out.put(std::uint64_t{l.h().channel_count()}); }},
    row{{"pgwaked_channels_limit", k::gauge, "", "", "Channels that can be subscribed to: max_channels."},
        [](const look& l, samples& out) { out.put(std::uint64_t{l.limits().max_channels}); }},
    row{{"pgwaked_subscriptions", k::gauge, "", "", "Pairs of a worker and a channel that it subscribes to."},
        [](const look& l, samples& out) { out.put(std::uint64_t{l.crowd.subscriptions}); }},
    row{{"pgwaked_acks_total", k::counter, "", "", "Subscriptions confirmed."},
        [](const look& l, samples& out) { out.put(l.totals().acks); }},
    row{{"pgwaked_nacks_total", k::counter, "", "",
         "Subscriptions refused: an invalid name, one that allow forbids, too many channels, or "
         "PostgreSQL's no."},
        [](const look& l, samples& out) { out.put(l.totals().nacks); }},
    row{{"pgwaked_ack_latency_seconds", k::histogram, "seconds", "",
         "Time from a worker's sub to its ack being queued, outages included."},
        [](const look& l, samples& out) { out.put(l.h().ack_latency()); }},

    row{{"pgwaked_notifications_total", k::counter, "", "", "Notifications read from PostgreSQL."},
        [](const look& l, samples& out) { out.put(l.totals().notifications); }},
    row{{"pgwaked_notifications_unrouted_total", k::counter, "", "",
         "Notifications on a channel that no worker subscribes to any more."},
        [](const look& l, samples& out) { out.put(l.totals().unrouted); }},
    row{{"pgwaked_wakes_delivered_total", k::counter, "", "", "Wakes queued for workers."},
        [](const look& l, samples& out) { out.put(l.totals().delivered); }},
    row{{"pgwaked_wakes_coalesced_total", k::counter, "", "",
         "Wakes without payload that added nothing to one that was still waiting for the same worker."},
        [](const look& l, samples& out) { out.put(l.totals().coalesced); }},
    row{{"pgwaked_wake_latency_seconds", k::histogram, "seconds", "",
         "Time that a wake spends in the hub, per delivery: from its notification being read from "
         "PostgreSQL to the write that hands its last byte to the worker's socket. A worker that does not "
         "read adds to it."},
        [](const look& l, samples& out) { out.put(l.h().wake_latency()); }},
    row{{"pgwaked_gaps_total", k::counter, "", "",
         "Gaps announced: one per subscription that may have missed notifications in an outage."},
        [](const look& l, samples& out) { out.put(l.totals().gaps); }},
    row{{"pgwaked_front_door_statements_total", k::counter, "", "kind",
         "Statements of drivers that the front door carried out, by what they are."},
        [](const look& l, samples& out) {
          for (std::size_t i = 0; i < door::statement_kinds.size(); ++i)
            out.put(l.e().door().tally().done[i], {{"kind", door::statement_kinds[i]}});
        }},
    row{{"pgwaked_front_door_errors_total", k::counter, "", "sqlstate",
         "Errors that drivers were answered, by SQLSTATE: 0A000 is what does not belong here, 57P03 who was "
         "not let in."},
        [](const look& l, samples& out) {
          for (const auto& [sqlstate, count] : l.e().door().tally().errors)
            out.put(count, {{"sqlstate", sqlstate}});
        }},
    row{{"pgwaked_front_door_gaps_total", k::counter, "", "how",
         "Gaps told to drivers: by closing their connection, or by a notice on pgwake.gap."},
        [](const look& l, samples& out) {
          out.put(l.e().door().counts().gap_closes, {{"how", "close"}});
          out.put(l.e().door().counts().gap_notices, {{"how", "notice"}});
        }},
    row{{"pgwaked_fences_total", k::counter, "", "",
         "Hand-overs between a worker's own connection and the hub, by the fences that passed."},
        [](const look& l, samples& out) { out.put(l.totals().fences); }},

    row{{"pgwaked_outbox_bytes", k::gauge, "bytes", "",
         "Memory for what waits for workers, and for what sessions of the front door keep, all together."},
        [](const look& l, samples& out) { out.put(std::uint64_t{l.h().held_bytes()}); }},
    row{{"pgwaked_outbox_limit_bytes", k::gauge, "bytes", "",
         "Where the fullest user's fullest worker is evicted: outbox_total_max_bytes."},
        [](const look& l, samples& out) { out.put(std::uint64_t{l.limits().outbox_total_max_bytes}); }},
    row{{"pgwaked_outbox_frames", k::gauge, "", "", "Frames that wait for workers, all outboxes together."},
        [](const look& l, samples& out) { out.put(std::uint64_t{l.crowd.outbox_frames}); }},
    row{{"pgwaked_worker_outbox_bytes", k::gauge, "bytes", "",
         "Memory for unsent payloads in the outbox that holds the most of them."},
        [](const look& l, samples& out) { out.put(std::uint64_t{l.crowd.fullest_bytes}); }},
    row{{"pgwaked_worker_outbox_limit_bytes", k::gauge, "bytes", "",
         "Past which a worker that takes no bytes is evicted: outbox_max_bytes."},
        [](const look& l, samples& out) { out.put(std::uint64_t{l.limits().outbox_max_bytes}); }},
    row{{"pgwaked_worker_outbox_frames", k::gauge, "", "",
         "Frames of unsent payloads in the outbox that holds the most of them."},
        [](const look& l, samples& out) { out.put(std::uint64_t{l.crowd.fullest_frames}); }},
    row{{"pgwaked_worker_outbox_limit_frames", k::gauge, "", "",
         "Past which a worker that takes no bytes is evicted: outbox_max_frames."},
        [](const look& l, samples& out) { out.put(std::uint64_t{l.limits().outbox_max_frames}); }},

    row{{"pgwaked_frames_received_total", k::counter, "", "", "Frames that workers sent."},
        [](const look& l, samples& out) { out.put(l.e().counts().frames); }},
    row{{"pgwaked_frames_unknown_total", k::counter, "", "",
         "Frames of a kind that this version does not know; ignored."},
        [](const look& l, samples& out) { out.put(l.e().counts().unknown_frames); }},
    row{{"pgwaked_protocol_errors_total", k::counter, "", "",
         "Workers dismissed because what they sent broke the protocol."},
        [](const look& l, samples& out) { out.put(l.e().counts().protocol_errors); }},

    row{{"pgwaked_log_lines_dropped_total", k::counter, "", "",
         "Lines of the log that were lost because their reader did not take them in time."},
        [](const look& l, samples& out) { out.put(l.view.log_dropped); }},
    row{{"pgwaked_reloads_total", k::counter, "", "result",
         "Reloads of the settings: done, or refused because of an error in them."},
        [](const look& l, samples& out) {
          out.put(l.view.reloads.done, {{"result", "done"}});
          out.put(l.view.reloads.refused, {{"result", "refused"}});
        }},
    row{{"pgwaked_settings_waiting_for_restart", k::gauge, "", "",
         "Settings whose change takes a restart, as the last reload found them."},
        [](const look& l, samples& out) { out.put(l.view.reloads.waiting_for_restart); }},

    row{{"process_cpu_seconds_total", k::counter, "seconds", "",
         "Processor time of the hub, user and system."},
        [](const look& l, samples& out) {
          if (l.view.process) out.put(l.view.process->cpu_seconds);
        }},
    row{{"process_resident_memory_bytes", k::gauge, "bytes", "", "Resident memory of the hub."},
        [](const look& l, samples& out) {
          if (l.view.process) out.put(l.view.process->resident_bytes);
        }},
    row{{"process_open_fds", k::gauge, "", "", "Descriptors that the hub has open."},
        [](const look& l, samples& out) {
          if (l.view.process) out.put(l.view.process->open_fds);
        }},
    row{{"process_max_fds", k::gauge, "", "", "Descriptors that it may have open."},
        [](const look& l, samples& out) {
          if (l.view.process) out.put(l.view.process->max_fds);
        }},
    row{{"process_start_time_seconds", k::gauge, "seconds", "",
         "When the hub started, in seconds since 1970."},
        [](const look& l, samples& out) {
          if (l.view.process) out.put(l.view.process->start_time_seconds);
        }},
};

constexpr auto descriptions = [] {
  std::array<metric_description, rows.size()> out{};
  for (std::size_t i = 0; i < rows.size(); ++i) out[i] = rows[i].what;
  return out;
}();

// What OpenMetrics calls a family whose samples end in what their kind adds.
std::string_view family_of(const metric_description& m) {
  const auto added = m.kind == k::counter ? std::string_view("_total")
                     : m.kind == k::info  ? std::string_view("_info")
                                          : std::string_view();
  return m.name.substr(0, m.name.size() - added.size());
}

}  // namespace

std::string_view to_string(metric_kind kind) {
  switch (kind) {
    case k::counter:
      return "counter";
    case k::gauge:
      return "gauge";
    case k::histogram:
      return "histogram";
    case k::info:
      return "info";
  }
  return "unknown";
}

std::span<const metric_description> metric_descriptions() { return descriptions; }

std::string metrics_text(const metrics_view& view, metrics_format format) {
  const bool open = format == metrics_format::openmetrics;
  const look found{view, view.hub.the_hub().overview()};
  std::string out;
  out.reserve(16 * 1024);
  for (const auto& r : rows) {
    const auto family = std::string(open ? family_of(r.what) : r.what.name);
    // The older format knows no infos.
    const auto kind = !open && r.what.kind == k::info ? k::gauge : r.what.kind;
    out += "# HELP " + family + " " + std::string(r.what.help) + "\n";
    out += "# TYPE " + family + " " + std::string(to_string(kind)) + "\n";
    if (!r.what.unit.empty()) out += "# UNIT " + family + " " + std::string(r.what.unit) + "\n";
    samples into(out, r.what.name);
    r.put(found, into);
  }
  out += "# EOF\n";
  return out;
}

std::string_view content_type(metrics_format format) {
  return format == metrics_format::openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                               : "text/plain; version=0.0.4; charset=utf-8";
}

metrics_format accepted_format(std::string_view accept) {
  return accept.find("application/openmetrics-text") == std::string_view::npos ? metrics_format::prometheus
                                                                               : metrics_format::openmetrics;
}

std::optional<std::string> unhealthy_because(const engine& hub) {
  if (is_healthy(hub)) return std::nullopt;
  return reason_of(hub);
}

}  // namespace pgwaked
