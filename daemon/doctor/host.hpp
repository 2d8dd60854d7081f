#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/doctor/facts.hpp"

// What doctor finds out about the hub on this host beside its socket: its unit, and the files it reads.
namespace pgwaked {

// What systemd knows of pgwaked@INSTANCE.service; nullopt: no systemd here, or it does not know the unit.
std::optional<doctor_facts::unit_look> look_at_unit(const std::string& instance);
// The last lines that systemd's journal holds of a unit, without passwords; none where it cannot be read.
std::vector<std::string> journal_of(const std::string& unit, int lines);

// Why the account may not read the file; empty: it may, or there is no such account or file, or we are not
// root and cannot try it.
std::string unreadable_for(const std::string& account, const std::string& path);

// The passfile that libpq would read; empty: none.
std::string passfile_of(const std::string& conninfo);

}  // namespace pgwaked
