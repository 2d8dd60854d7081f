#pragma once

#include <string>
#include <string_view>

namespace pgwake {

// `text` as the value of a field in a log line: in double quotes, with a backslash before each `"` and `\`,
// so that no text can end its field and begin another. Every text that others chose is logged in this way.
// Control characters stay: the log escapes them.
std::string log_field(std::string_view text);

}  // namespace pgwake
