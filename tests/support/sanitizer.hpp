#pragma once

namespace pgwake::test {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PGWAKE_TEST_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PGWAKE_TEST_SANITIZED 1
#endif

/// Built with a sanitizer, and so is the program under test: figures of memory mean nothing, times little.
#ifdef PGWAKE_TEST_SANITIZED
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace pgwake::test
