#include "daemon/doctor/door.hpp"

#include <cstdlib>
#include <optional>

#include "common/os/random_word.hpp"
#include "daemon/settings/door_place.hpp"

namespace pgwaked {

using namespace pgwake;
using pg::blocking_session;

namespace {

constexpr millis patience{5'000};
constexpr millis arrival{3'000};

// libpq takes an empty hostaddr for none, and then the environment's, which leads to a server.
class without_hostaddr {
 public:
  without_hostaddr() {
    const char* value = std::getenv(name);
    if (value != nullptr) before_ = value;
    unsetenv(name);
  }
  ~without_hostaddr() {
    if (before_) setenv(name, before_->c_str(), 1);
  }
  without_hostaddr(const without_hostaddr&) = delete;
  without_hostaddr& operator=(const without_hostaddr&) = delete;

 private:
  static constexpr const char* name = "PGHOSTADDR";
  std::optional<std::string> before_;
};

// Why a NOTIFY of doctor's own session says nothing about the hub's; empty: it does.
std::string other_database(const doctor_facts& f) {
  const auto& hub = f.hub->status.upstream;
  const bool same =
      hub.database == f.session->database &&
      (hub.system_id.empty() || f.session->system_id.empty() || hub.system_id == f.session->system_id);
  return same ? "" : "doctor's session is with another database than the hub's";
}

}  // namespace

doctor_facts::door_look look_at_door(blocking_session& publisher, const doctor_facts& so_far) {
  doctor_facts::door_look out;
  out.folder = door_folder(so_far.configured);
  out.port = std::to_string(so_far.configured.front_door_port);
  pg::connect_settings how;
  how.over = {{"dbname", so_far.hub->status.upstream.database}, {"user", so_far.user}};
  how.application_name = "pgwake-doctor@" + so_far.this_host;
  const without_hostaddr only_the_socket;
  auto driver = blocking_session::open(how, {out.folder, "", out.port}, patience);
  if (!driver) {
    out.failure = driver.error();
    return out;
  }
  out.connected = true;
  // Channels that begin with `pgwake.` are closed to workers.
  const auto channel = driver->quoted("pgwaked_doctor_" + std::to_string(random_word()));
  if (const auto listened = driver->query("LISTEN " + channel, patience); !listened) {
    out.failure = listened.error();
    return out;
  }
  out.not_published = other_database(so_far);
  if (!out.not_published.empty()) return out;
  publisher.query("SELECT pg_catalog.set_config('lock_timeout', '3s', false)", patience);
  if (const auto sent = publisher.query("NOTIFY " + channel + ", 'x'", patience); !sent)
    out.not_published = "NOTIFY fails: " + sent.error().message;
  else
    out.arrived = driver->next_notification(arrival).has_value();
  return out;
}

}  // namespace pgwaked
