#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace pgwaked {

// Text that others chose, fit for a terminal: control characters, bytes that are not UTF-8, and characters
// that change direction or break lines come out as escapes (\x1b, \u202e). Everything else stays.
std::string printable(std::string_view text);
// The same for JSON without line breaks, which stays the same to those who parse it: JSON's own escapes.
std::string printable_json(std::string_view json);

// Several lines of a message as one, each said once: libpq repeats itself for each attempt.
std::string in_one_line(std::string_view message);

// Columns that a terminal gives to `text` (as printable() made it): wide characters take two,
// combining ones none.
std::size_t columns_of(std::string_view text);

// Exactly `width` columns: cut with an ellipsis, or filled with spaces.
std::string left_aligned(std::string_view text, std::size_t width);
std::string right_aligned(std::string_view text, std::size_t width);
// At most `width` columns: cut with an ellipsis.
std::string cut(std::string_view text, std::size_t width);

// `text` after `label`, broken between words so that no line is wider than `width` where a word allows it;
// further lines are indented as wide as the label. Ends in a newline.
std::string wrapped(std::string_view label, std::string_view text, std::size_t width);

// Whether the environment's locale is UTF-8; if not, only ASCII is drawn.
bool terminal_is_utf8();

// For people, two units at most: `350 ms`, `4.2 s`, `3 min 5 s`, `2 h 7 min`, `12 d 3 h`.
std::string short_duration(std::chrono::milliseconds value);
// At most five characters, for narrow columns: `350ms`, `4.2s`, `3m`, `27h`, `12d`.
std::string compact_duration(std::chrono::milliseconds value);
// `0 B`, `812 B`, `1.2 KiB`, `16.0 MiB`.
std::string short_bytes(std::uint64_t bytes);
// `1234567` as `1,234,567`.
std::string grouped(std::uint64_t number);
// At most five characters: `0`, `7.5`, `812`, `12.3k`, `1.8M`. For counts and rates in narrow columns.
std::string short_number(double number);

}  // namespace pgwaked
