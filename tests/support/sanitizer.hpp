#pragma once

// Sanitizers keep memory that was freed, make system calls and, TSan, have a thread of their own.
namespace pgwake::test {

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PGWAKE_TEST_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define PGWAKE_TEST_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define PGWAKE_TEST_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define PGWAKE_TEST_TSAN 1
#endif

#ifdef PGWAKE_TEST_ASAN
inline constexpr bool under_asan = true;
#else
inline constexpr bool under_asan = false;
#endif
#ifdef PGWAKE_TEST_TSAN
inline constexpr bool under_tsan = true;
#else
inline constexpr bool under_tsan = false;
#endif

/// Built with a sanitizer, and so is the program under test: figures of memory mean nothing, times little.
inline constexpr bool sanitized = under_asan || under_tsan;

}  // namespace pgwake::test
