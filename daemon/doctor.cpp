#include "daemon/doctor.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "daemon/doctor_report.hpp"
#include "daemon/standard_streams.hpp"

namespace pgwaked {
namespace {

constexpr std::size_t usual_width = 100;

std::size_t width_of_output() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40)
    return std::min<std::size_t>(size.ws_col, 120);
  return usual_width;
}

}  // namespace

int doctor_command(const doctor_options& options) {
  const auto report = judge(collect(options));
  const bool colours = isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
  std::cout << (options.json ? report_json(report) + "\n" : report_text(report, width_of_output(), colours));
  if (!output_written("pgwaked doctor")) return 2;
  return static_cast<int>(report.worst());
}

}  // namespace pgwaked
