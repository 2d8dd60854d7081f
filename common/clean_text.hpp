#pragma once

#include <string_view>

namespace pgwake {

// `text` as it was meant, out of a file or a variable: without what editors and shells add, the byte order
// mark at its front (Windows) and the white space at its end (a line's end, with or without a CR).
std::string_view clean_text(std::string_view text);

}  // namespace pgwake
