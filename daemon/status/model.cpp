#include "daemon/status/model.hpp"

#include <rapidjson/document.h>

#include <algorithm>
#include <tuple>

namespace pgwaked {
namespace {

using rapidjson::Value;

// The members of one object; what is missing or of another kind reads as nothing.
class object {
 public:
  explicit object(const Value& value) : value_(value) {}

  const Value* find(const char* name) const {
    if (!value_.IsObject()) return nullptr;
    const auto it = value_.FindMember(name);
    return it == value_.MemberEnd() ? nullptr : &it->value;
  }
  void read(const char* name, std::string& out) const {
    if (const auto* v = find(name); v != nullptr && v->IsString())
      out = {v->GetString(), v->GetStringLength()};
  }
  void read(const char* name, std::uint64_t& out) const {
    if (const auto* v = find(name); v != nullptr && v->IsUint64()) out = v->GetUint64();
  }
  void read(const char* name, std::uint32_t& out) const {
    if (const auto* v = find(name); v != nullptr && v->IsUint()) out = v->GetUint();
  }
  void read(const char* name, std::int64_t& out) const {
    if (const auto* v = find(name); v != nullptr && v->IsInt64()) out = v->GetInt64();
  }
  void read(const char* name, double& out) const {
    if (const auto* v = find(name); v != nullptr && v->IsNumber()) out = v->GetDouble();
  }
  void read(const char* name, bool& out) const {
    if (const auto* v = find(name); v != nullptr && v->IsBool()) out = v->GetBool();
  }
  template <typename T>
  void read(const char* name, std::optional<T>& out) const {
    if (const auto* v = find(name); v != nullptr && v->IsNumber()) read(name, out.emplace());
  }
  template <typename Each>
  void each(const char* name, Each&& take) const {
    const auto* v = find(name);
    if (v == nullptr || !v->IsArray()) return;
    for (const auto& one : v->GetArray()) take(object(one));
  }

 private:
  const Value& value_;
};

void read(const object& from, hub_status::upstream_state& out) {
  from.read("state", out.state);
  from.read("server", out.server);
  from.read("database", out.database);
  if (const auto* v = from.find("user"); v != nullptr && v->IsString()) out.user.emplace(v->GetString());
  from.read("system_id", out.system_id);
  from.read("backend_pid", out.backend_pid);
  from.read("server_version", out.server_version);
  from.read("since_s", out.since_s);
  from.read("reconnects", out.reconnects);
  from.read("attempts", out.attempts);
  from.read("pooler", out.pooler);
  from.read("queue_usage", out.queue_usage);
  from.read("channels_listened", out.channels_listened);
}

hub_status::worker read_worker(const object& from) {
  hub_status::worker out;
  from.read("id", out.id);
  from.read("pid", out.pid);
  from.read("uid", out.uid);
  from.read("name", out.name);
  from.read("dialect", out.dialect);
  from.read("channel_count", out.channel_count);
  from.read("outbox_bytes", out.outbox_bytes);
  from.read("outbox_frames", out.outbox_frames);
  from.read("delivered", out.delivered);
  from.read("coalesced", out.coalesced);
  from.read("oldest_ms", out.oldest_ms);
  return out;
}

hub_status::channel read_channel(const object& from) {
  hub_status::channel out;
  from.read("name", out.name);
  from.read("workers", out.workers);
  from.read("active", out.active);
  return out;
}

void read(const object& from, hub_status::totals_of_run& out) {
  from.read("workers", out.workers);
  from.read("workers_ever", out.workers_ever);
  from.read("workers_refused", out.workers_refused);
  from.read("channels", out.channels);
  from.read("notifications", out.notifications);
  from.read("unrouted", out.unrouted);
  from.read("delivered", out.delivered);
  from.read("coalesced", out.coalesced);
  from.read("gaps", out.gaps);
  from.read("acks", out.acks);
  from.read("nacks", out.nacks);
  from.read("fences", out.fences);
  from.read("evicted", out.evicted);
  from.read("protocol_errors", out.protocol_errors);
  from.read("outbox_bytes", out.outbox_bytes);
}

}  // namespace

std::optional<hub_status> parse_status(std::string_view json) {
  rapidjson::Document doc;
  doc.Parse<rapidjson::kParseIterativeFlag>(json.data(), json.size());
  if (doc.HasParseError() || !doc.IsObject()) return std::nullopt;
  const object from(doc);
  hub_status out;
  from.read("version", out.version);
  from.read("hub", out.hub);
  from.read("pid", out.pid);
  from.read("uptime_s", out.uptime_s);
  from.read("healthy", out.healthy);
  from.read("draining", out.draining);
  from.read("full", out.full);
  from.read("reason", out.reason);
  from.read("detail", out.detail);
  from.read("truncated", out.truncated);
  if (const auto* v = from.find("upstream")) read(object(*v), out.upstream);
  if (const auto* v = from.find("totals")) read(object(*v), out.totals);
  if (const auto* v = from.find("limits")) {
    object(*v).read("max_workers", out.max_workers);
    object(*v).read("max_channels", out.max_channels);
  }
  from.each("workers", [&](const object& o) { out.workers.push_back(read_worker(o)); });
  from.each("channels", [&](const object& o) { out.channels.push_back(read_channel(o)); });
  return out;
}

void slowest_first(std::vector<hub_status::worker>& workers) {
  std::sort(workers.begin(), workers.end(), [](const auto& a, const auto& b) {
    return std::tuple(b.outbox_bytes, b.outbox_frames, a.id) <
           std::tuple(a.outbox_bytes, a.outbox_frames, b.id);
  });
}

std::string server_version_name(std::int64_t number) {
  if (number <= 0) return {};
  if (number < 100'000)
    return "PostgreSQL " + std::to_string(number / 10'000) + "." + std::to_string(number / 100 % 100);
  return "PostgreSQL " + std::to_string(number / 10'000) + "." + std::to_string(number % 10'000);
}

}  // namespace pgwaked
