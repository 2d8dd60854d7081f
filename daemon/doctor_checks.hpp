#pragma once

#include <string>

#include "daemon/doctor_report.hpp"

// The single checks of doctor: each looks at the facts and adds its findings. Pure.
namespace pgwaked::doctor {

void judge_settings(const doctor_facts& f, doctor_report& out);
void judge_socket(const doctor_facts& f, doctor_report& out);
void judge_hub(const doctor_facts& f, doctor_report& out);
void judge_limits(const doctor_facts& f, doctor_report& out);
// Names, network, TLS, login, primary.
void judge_servers(const doctor_facts& f, doctor_report& out);
// What a session sees: pooler, delivery, version, slots, queue, timeouts, fallbacks, clock, budget.
void judge_session(const doctor_facts& f, const doctor_facts::session_look& s, doctor_report& out);

finding ok(const char* check, std::string found);
finding warn(const char* check, std::string found, std::string advice);
finding fail(const char* check, std::string found, std::string advice);
std::string number(double value);                        // two decimals at most
std::string counted(std::int64_t n, const char* thing);  // `1 worker`, `2 workers`

}  // namespace pgwaked::doctor
