#pragma once

#include <string_view>

namespace pgwaked {

// Opens /dev/null on whichever of the descriptors 0, 1 and 2 is closed. Call it before anything is opened:
// the next socket or file would get that number, and what is meant for people would be written into it.
void open_standard_streams();

// Sends off what was printed to std::cout. False if not all of it could be written (a full disk): that has
// then been said on standard error, in the name of `command`.
bool output_written(std::string_view command);

}  // namespace pgwaked
