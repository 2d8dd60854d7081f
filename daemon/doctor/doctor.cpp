#include "daemon/doctor/doctor.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "daemon/doctor/bundle.hpp"
#include "daemon/doctor/report.hpp"
#include "daemon/terminal/standard_streams.hpp"
#include "daemon/terminal/text.hpp"

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
  const auto complain = [&](const std::string& why) {
    std::cerr << "pgwaked doctor: --bundle " << printable(*options.bundle) << ": " << why << "\n";
    return static_cast<int>(verdict::failure);
  };
  if (options.bundle)
    if (const auto why = bundle_fault(*options.bundle); !why.empty()) return complain(why);
  const auto facts = collect(options);
  const auto report = judge(facts);
  const bool colours = isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
  std::cout << (options.json ? report_json(report) + "\n" : report_text(report, width_of_output(), colours));
  if (!output_written("pgwaked doctor")) return 2;
  if (options.bundle) {
    if (const auto why = write_bundle(*options.bundle, options, facts, report); !why.empty())
      return complain(why);
    std::cerr << "pgwaked doctor: wrote " << printable(*options.bundle)
              << ", without passwords; names of hosts, databases, workers and channels are in it\n";
  }
  return static_cast<int>(report.worst());
}

}  // namespace pgwaked
