#pragma once

#include <string>
#include <string_view>

namespace pgwake {

// Appends `utf8` as a JSON string, with its quotes. Bytes that need no escape are copied in runs.
void append_json_string(std::string& out, std::string_view utf8);

// Takes a JSON string, with its quotes, off the front of `json` and puts what it stands for into `out`. False
// if it is not one in the form that append_json_string() writes; it may be valid JSON all the same. That the
// bytes are UTF-8 is not looked at.
bool take_json_string(std::string_view& json, std::string& out);

}  // namespace pgwake
