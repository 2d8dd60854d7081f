#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/server_facts.hpp"
#include "daemon/operator/hub_failure.hpp"
#include "daemon/settings/settings.hpp"
#include "daemon/status/model.hpp"

namespace pgwaked {

// All that `pgwaked doctor` found out, before anything is judged. What could not be found out is nullopt.
struct doctor_facts {
  struct socket_look {
    std::string path;
    bool exists = false, is_socket = false;
    unsigned mode = 0;  // permission bits
    std::string owner, group;
    std::optional<hub_failure> failure;  // of the attempt to talk to a hub there
  };
  struct hub_look {
    hub_status status;
    std::uint32_t uid = 0;  // whom the socket was made by (SO_PEERCRED)
    std::string user;
    std::string stats;  // as it came: JSON
  };
  // One host of the connection string.
  struct server_look {
    pgwake::pg::host_entry host;
    std::vector<std::string> addresses;
    std::string resolve_error;
    std::int64_t resolve_ms = 0;
    std::optional<pgwake::pg::query_failure> failure;  // set: no session
    pgwake::pg::tls_state tls;                         // of the session, or of a look without trust
    std::optional<bool> in_recovery;
  };
  enum class pooling { none, session, transaction };
  struct server_setting {
    std::string value;  // in the setting's own unit
    std::string
        source;  // `default`, `configuration file`, `database`, `user`, `database user`, `client`, ...
  };
  struct role_look {
    std::string name;
    bool superuser = false;
    std::int64_t limit = -1, in_use = 0;                    // CONNECTION LIMIT of the role
    std::int64_t database_limit = -1, database_in_use = 0;  // and of the database
  };
  struct slots_look {
    std::int64_t max_connections = 0, reserved = 0;  // reserved: not for ordinary roles
    std::int64_t used = 0;                           // by clients, doctor's own not counted
    std::int64_t free_for_us() const { return std::max<std::int64_t>(0, max_connections - reserved - used); }
  };
  struct host_census {
    std::int64_t hubs = 0, fallbacks = 0;
  };
  struct transaction_look {
    std::int64_t pid = 0;
    std::string application_name, state;
    double age_s = 0;
  };
  enum class delivery { arrived, commit_waits, lost, failed };
  // The session that was looked through: to the first primary, else to the first server that let us in.
  struct session_look {
    std::string server;
    std::int64_t server_version = 0;
    std::string database, system_id;
    pooling pooler = pooling::none;
    std::optional<delivery> notify;
    std::string notify_error;
    std::map<std::string, server_setting> settings;
    std::optional<role_look> role;
    std::optional<slots_look> slots;
    std::optional<double> queue_usage;
    std::optional<transaction_look> oldest;
    std::optional<std::map<std::string, host_census>> census;  // by host
    // Sessions of this host, with this database, whose last statement is a LISTEN, and which are none of
    // pgwake's: by application_name.
    std::optional<std::map<std::string, std::int64_t>> direct_listeners;
    std::int64_t hidden_sessions = 0;   // of other roles, whose statements this one is not shown
    std::optional<double> clock_off_s;  // server's minus ours
    std::string second_session_error;   // set: only one session could be had
  };

  // The front door, used as drivers use it.
  struct door_look {
    std::string folder, port;                          // a driver's host and port
    std::optional<pgwake::pg::query_failure> failure;  // of connecting or of LISTEN
    bool connected = false;                            // before that
    bool arrived = false;                              // a NOTIFY that the server took
    std::string not_published;                         // why no NOTIFY was sent; empty: one was
  };

  // What systemd knows of the instance.
  struct unit_look {
    std::string name, state, result, exit_status, user;
    bool active = false;
    std::int64_t restarts = 0;
    std::vector<std::string> journal;  // its last lines, without passwords
  };
  // A file that the hub's user cannot read.
  struct unreadable_file {
    std::string path, account, reason;
  };

  std::string version;    // of this program
  std::string this_host;  // as application names have it
  std::uint32_t our_uid = 0;
  std::string hub_user = "pgwake";  // whom workers trust, if they have our environment

  settings configured;
  std::vector<std::string> settings_errors;
  std::vector<std::string> number_errors;  // of what doctor alone is told, and `config` does not show
  std::vector<std::string> settings_warnings;
  std::string conninfo_shown;  // without passwords; empty: libpq's environment and defaults alone
  std::string target_fault;
  std::string user, database, sslmode;
  std::uint64_t descriptors = 0;  // the hub's limit; 0: it cannot be seen
  std::optional<unit_look> unit;
  std::vector<unreadable_file> unreadable;
  std::string open_passfile;  // that libpq ignores since others may read it; empty: none

  socket_look socket;
  std::optional<hub_look> hub;
  std::vector<server_look> servers;
  std::optional<session_look> session;
  std::optional<door_look> door;

  double queue_threshold = 0.1;                 // part of the notify queue from which a warning is due
  std::optional<std::uint64_t> fallback_limit;  // of this host's clients
};

}  // namespace pgwaked
