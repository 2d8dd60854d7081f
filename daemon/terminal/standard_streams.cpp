#include "daemon/terminal/standard_streams.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <iostream>

namespace pgwaked {

void open_standard_streams() {
  // open() takes the lowest free number, and those below are open by now.
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0 && errno == EBADF) static_cast<void>(open("/dev/null", O_RDWR));
}

bool output_written(std::string_view command) {
  errno = 0;  // if it has failed before, nobody knows why
  if (std::cout.flush()) return true;
  std::cerr << command << ": cannot write to standard output";
  if (errno != 0) std::cerr << ": " << std::strerror(errno);
  std::cerr << "\n";
  return false;
}

}  // namespace pgwaked
