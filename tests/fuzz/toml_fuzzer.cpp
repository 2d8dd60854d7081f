// The settings file: whatever it says, it is read or refused with a line and a reason; what was read can be
// written and reads the same.

#include "common/unicode.hpp"
#include "daemon/settings/toml.hpp"
#include "fuzz/check.hpp"

namespace {

std::string written(const pgwaked::toml::value_type& value) {
  using pgwaked::toml::quote;
  if (const auto* text = std::get_if<std::string>(&value)) return quote(*text);
  if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  std::string out = "[";
  for (const auto& item : std::get<std::vector<std::string>>(value)) out += quote(item) + ", ";
  return out + "]";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const auto first = pgwaked::toml::parse({reinterpret_cast<const char*>(data), size});
  if (!first) {
    FUZZ_CHECK(first.error().line >= 1);
    FUZZ_CHECK(!first.error().message.empty());
    FUZZ_CHECK(pgwake::is_utf8(first.error().message));
    return 0;
  }
  std::string text;
  for (const auto& e : *first) text += pgwaked::toml::quote(e.key) + " = " + written(e.value) + "\n";
  const auto second = pgwaked::toml::parse(text);
  FUZZ_CHECK(second.has_value());
  FUZZ_CHECK(second->size() == first->size());
  for (std::size_t i = 0; i < first->size(); ++i) {
    FUZZ_CHECK((*first)[i].key == (*second)[i].key);
    FUZZ_CHECK((*first)[i].value == (*second)[i].value);
  }
  return 0;
}
