#include "systemd/host.hpp"

#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <stdexcept>

#include "support/files.hpp"

namespace pgwake::test {

namespace fs = std::filesystem;

run_result command(std::vector<std::string> argv) {
  process_options options{std::move(argv)};
  options.env = {{"LC_ALL", "C.UTF-8"}, {"SYSTEMD_PAGER", ""}, {"DEBIAN_FRONTEND", "noninteractive"}};
  return run(std::move(options), 90s);
}

std::string command_ok(std::vector<std::string> argv) {
  const auto title = argv[0] + (argv.size() > 1 ? " " + argv[1] : "");
  auto result = command(std::move(argv));
  if (result.exit_code != 0)
    throw std::runtime_error(title + " exited " + std::to_string(result.exit_code) + ": " + result.out +
                             result.err);
  return result.out;
}

std::string package_file(const std::string& name, const std::string& which) {
  for (const auto& file : fs::directory_iterator(std::string(PGWAKE_TEST_PACKAGES) + "/" + which)) {
    const auto path = file.path().string();
    if (file.path().filename().string().starts_with(name + "_")) return path;
  }
  throw std::runtime_error("no package " + name + " was built");
}

void install_package() {
  if (!fs::exists("/usr/bin/pgwaked")) command_ok({"dpkg", "--install", package_file("pgwaked")});
}

std::string property(const std::string& unit, const std::string& name) {
  auto value = command_ok({"systemctl", "show", "--value", "--property", name, unit});
  while (!value.empty() && value.back() == '\n') value.pop_back();
  return value;
}

int main_pid(const std::string& unit) { return std::stoi(property(unit, "MainPID")); }

std::string journal(const std::string& unit, std::vector<std::string> options) {
  command({"journalctl", "--sync"});
  std::vector<std::string> argv = {"journalctl", "--no-pager", "--output", "cat", "--unit", unit};
  argv.insert(argv.end(), options.begin(), options.end());
  return command_ok(std::move(argv));
}

instance::instance(std::string name, const std::string& text) : name_(std::move(name)) {
  install_package();
  settings(text);
}

instance::~instance() {
  command({"systemctl", "stop", socket_unit(), unit()});
  command({"systemctl", "reset-failed", socket_unit(), unit()});
  std::error_code ignored;
  for (const auto& each : {unit(), socket_unit()})
    fs::remove_all("/etc/systemd/system/" + each + ".d", ignored);
  for (const auto* suffix : {".toml", ".pgpass", ".database"}) fs::remove(etc(suffix), ignored);
  fs::remove_all("/run/pgwake/" + name_, ignored);
  command({"systemctl", "daemon-reload"});
}

void instance::settings(const std::string& text) const { write_file(etc(".toml"), text, 0644); }

void instance::drop_in(const std::string& unit, const std::string& text) const {
  const auto folder = "/etc/systemd/system/" + unit + ".d";
  fs::create_directories(folder);
  write_file(folder + "/test.conf", text);
  command_ok({"systemctl", "daemon-reload"});
}

void instance::start() const {
  if (try_start().exit_code != 0) throw std::runtime_error("not started: " + journal(unit()));
}

void instance::stop() const { command_ok({"systemctl", "stop", unit()}); }

void instance::signal(int number) const {
  const auto to = pid();
  if (to <= 0 || ::kill(to, number) != 0)
    throw std::runtime_error("cannot send a signal to " + unit() + ", which has the main process " +
                             std::to_string(to));
}

bool instance::runs_anew(int before, milliseconds patience) const {
  return eventually(patience, [&] {
    const auto now = pid();
    return now != 0 && now != before;
  });
}

bool instance::healthy() const {
  return eventually(10s, [&] { return status_text().starts_with("healthy"); });
}

bool instance::logs(const std::string& words) const {
  return eventually(10s, [&] { return journal(unit()).find(words) != std::string::npos; });
}

raw_worker instance::connect() const {
  raw_worker worker(socket());
  worker.hello("systemd test");
  return worker;
}

}  // namespace pgwake::test
