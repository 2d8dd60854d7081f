#pragma once

#include <optional>

#include "common/pg/query.hpp"
#include "daemon/doctor/facts.hpp"

namespace pgwaked {

// nullopt: it would not say.
std::optional<bool> in_recovery(pgwake::pg::blocking_session& session);

// What a session sees; opens a second one for the time of it.
doctor_facts::session_look look_through(pgwake::pg::blocking_session& session,
                                        const pgwake::pg::connect_settings& how,
                                        const doctor_facts::server_look& server, const doctor_facts& so_far);

}  // namespace pgwaked
