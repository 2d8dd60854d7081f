#pragma once

#include <string>
#include <string_view>

namespace pgwake {

// Appends `utf8` as a JSON string, with its quotes. Bytes that need no escape are copied in runs.
void append_json_string(std::string& out, std::string_view utf8);

}  // namespace pgwake
