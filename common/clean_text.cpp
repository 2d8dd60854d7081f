#include "common/clean_text.hpp"

namespace pgwake {

std::string_view clean_text(std::string_view text) {
  constexpr std::string_view mark = "\xEF\xBB\xBF";
  if (text.starts_with(mark)) text.remove_prefix(mark.size());
  return text.substr(0, text.find_last_not_of(" \t\r\n\v\f") + 1);  // npos + 1: nothing
}

}  // namespace pgwake
