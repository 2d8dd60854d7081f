#pragma once

#include "common/pg/query.hpp"
#include "daemon/doctor/facts.hpp"

namespace pgwaked {

// Connects to the front door as drivers do, LISTENs, and has `publisher` send a NOTIFY. `so_far.hub` is there
// and healthy.
doctor_facts::door_look look_at_door(pgwake::pg::blocking_session& publisher, const doctor_facts& so_far);

}  // namespace pgwaked
