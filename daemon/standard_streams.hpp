#pragma once

namespace pgwaked {

// Opens /dev/null on whichever of the descriptors 0, 1 and 2 is closed. Call it before anything is opened:
// the next socket or file would get that number, and what is meant for people would be written into it.
void open_standard_streams();

}  // namespace pgwaked
