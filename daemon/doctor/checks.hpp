#pragma once

#include <string>

#include "daemon/doctor/report.hpp"

// The single checks of doctor: each looks at the facts and adds its findings. Pure.
namespace pgwaked::doctor {

void judge_settings(const doctor_facts& f, doctor_report& out);
void judge_socket(const doctor_facts& f, doctor_report& out);
void judge_unit(const doctor_facts& f, doctor_report& out);
void judge_hub(const doctor_facts& f, doctor_report& out);
void judge_limits(const doctor_facts& f, doctor_report& out);
// Names, network, TLS, login, primary.
void judge_servers(const doctor_facts& f, doctor_report& out);
// What a session sees: pooler, delivery, version, slots, queue, timeouts, fallbacks, clock, budget.
void judge_session(const doctor_facts& f, const doctor_facts::session_look& s, doctor_report& out);
// What the hub knows of the server, where its own session has used up the role's CONNECTION LIMIT.
void judge_hubs_session(const doctor_facts& f, const hub_status::upstream_state& s, doctor_report& out);

// The front door, as drivers find it.
void judge_door(const doctor_facts& f, doctor_report& out);
// Drivers that LISTEN at the server itself although the front door is there.
void judge_drivers(const doctor_facts& f, doctor_report& out);

// The server refuses a session for the role's CONNECTION LIMIT, and the hub that runs well has one at that
// very server and database: with a limit of 1, all that is needed.
bool hub_has_the_slot(const doctor_facts& f);

finding ok(const char* check, std::string found);
finding warn(const char* check, std::string found, std::string advice);
finding fail(const char* check, std::string found, std::string advice);
void skip(const char* check, std::string why, doctor_report& out);
std::string number(double value);                        // two decimals at most
std::string counted(std::int64_t n, const char* thing);  // `1 worker`, `2 workers`

}  // namespace pgwaked::doctor
