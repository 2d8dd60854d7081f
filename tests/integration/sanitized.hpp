#pragma once

// Sanitizers keep memory that was freed, make system calls and, TSan, have a thread of their own.
namespace pgwake::test {

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool under_tsan = true;
#else
inline constexpr bool under_tsan = false;
#endif
#if __has_feature(address_sanitizer)
inline constexpr bool under_asan = true;
#else
inline constexpr bool under_asan = false;
#endif
#else
inline constexpr bool under_tsan = false;
inline constexpr bool under_asan = false;
#endif
inline constexpr bool sanitized = under_asan || under_tsan;

}  // namespace pgwake::test
