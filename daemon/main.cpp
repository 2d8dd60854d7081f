#include <CLI/CLI.hpp>
#include <array>
#include <iostream>
#include <string>
#include <vector>

#include "daemon/app/run.hpp"
#include "daemon/doctor/doctor.hpp"
#include "daemon/operator/control.hpp"
#include "daemon/operator/listen.hpp"
#include "daemon/settings/command_line.hpp"
#include "daemon/status/status.hpp"
#include "daemon/terminal/standard_streams.hpp"

namespace {

using namespace pgwaked;

void add_status(CLI::App& app, status_options& into) {
  constexpr std::array<std::string_view, 2> names = {"socket", "config"};
  auto* status = app.add_subcommand("status", "Show a running hub's health, upstream, workers and channels");
  add_options(*status, into.given, names);
  auto* json = status->add_flag("--json", into.json, "Print everything as one JSON object");
  status->add_flag("--watch", into.watch, "Live view on the terminal, until q or Ctrl-C")->excludes(json);
  status->footer("Exit code: 0 healthy, 1 degraded, 3 not running, 4 it runs and does not answer.");
}

void add_control(CLI::App& app, control_options& into) {
  constexpr std::array<std::string_view, 2> names = {"socket", "config"};
  auto* control =
      app.add_subcommand("control", "Make a running hub do something; for root and the hub's own user");
  control->require_subcommand(1);
  add_options(*control, into.given, names);
  const auto add = [&](const char* what, const char* help) {
    auto* sub = control->add_subcommand(what, help);
    add_options(*sub, into.given, names);
    sub->callback([&into, what] { into.what = what; });
    return sub;
  };
  add("evict", "Close a worker's connection")
      ->add_option("WORKER", into.arg, "its number, as `pgwaked status` shows it")
      ->required();
  add("log-level", "Log more or less, until the next reload or restart")
      ->add_option("LEVEL", into.arg, "trace, debug, info, warning or error")
      ->required();
  add("reconnect", "Open the connection to PostgreSQL anew");
  add("drain", "Tell the workers and stop, as on SIGTERM");
  control->footer(
      "Exit code: 0 done, 1 refused, 2 wrong usage, 3 not running, 4 it runs and does not answer.");
}

void add_doctor(CLI::App& app, doctor_options& into) {
  constexpr std::array<std::string_view, 12> names = {
      "config",          "database",       "database_file",
      "socket",          "max_workers",    "application_name",
      "connect_timeout", "socket_group",   "allow_session_pooler",
      "front_door",      "front_door_dir", "front_door_port"};
  auto* doctor = app.add_subcommand("doctor", "Check the whole chain, and say what to do about each trouble");
  add_options(*doctor, into.given, names);
  doctor->add_flag("--json", into.json, "Print the report as one JSON object");
  doctor
      ->add_option("--queue-threshold", into.queue_threshold,
                   "Warn when this part of PostgreSQL's notify queue is in use [10]")
      ->type_name("PERCENT");
  doctor
      ->add_option(
          "--fallback-limit", into.fallback_limit,
          "The workers' fallback_limit, for the connection budget [PGWAKE_FALLBACK_LIMIT, else none]")
      ->type_name("NUMBER");
  doctor
      ->add_option("--bundle", into.bundle,
                   "Also write a support archive without secrets: report, status, settings, journal, metrics")
      ->type_name("FILE.tar");
  doctor->footer(
      "Give it what the hub is given: --config FILE, or --database. It opens two short connections.\n"
      "Exit code: 0 all good, 1 a warning, 2 a failure.");
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  CLI::App app{"pgwaked: one LISTEN connection per host, however many workers", "pgwaked"};
  app.set_version_flag("--version", "pgwaked " PGWAKE_VERSION_STRING);
  app.require_subcommand(1);

  command_values run_values;
  command_values config_values;
  status_options status;
  auto* run = app.add_subcommand("run", "Run the daemon in the foreground; logs go to stderr");
  add_options(*run, run_values);
  add_status(app, status);
  doctor_options doctor;
  add_doctor(app, doctor);
  control_options control;
  add_control(app, control);
  listen_options listen;
  add_listen(app, listen);
  auto* config = app.add_subcommand("config", "Show the effective settings and where each came from");
  add_options(*config, config_values);
  bool check = false;
  config->add_flag("--check", check, "Print nothing unless a setting is wrong");

  const auto outcome = parse_command(app, {argv + 1, argv + argc});
  std::cout << outcome.out;
  std::cerr << outcome.err;
  if (!outcome.go_on) return output_written("pgwaked") ? outcome.exit_code : 1;
  if (app.got_subcommand("run")) return run_command(run_values);
  if (app.got_subcommand("doctor")) return doctor_command(doctor);
  if (app.got_subcommand("control")) return control_command(control);
  if (app.got_subcommand("listen")) return listen_command(listen);
  if (app.got_subcommand("status")) return status_command(status);
  return config_command(config_values, check);
}
