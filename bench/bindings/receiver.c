/* A receiver of bench/bindings/measure: libpgwake by its descriptor, as a program with a loop of its own has it. */
#define _GNU_SOURCE
#include <pgwake/pgwake.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static double processor(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 +
         (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void check(int result, const char* what) {
  if (result >= 0) return;
  fprintf(stderr, "receiver: %s: %s: %s\n", what, pgwake_result_name(result), pgwake_last_error());
  exit(1);
}

static const pgwake_event* next_wake(pgwake_handle* handle) {
  for (;;) {
    const pgwake_event* event;
    int result = pgwake_next(handle, &event, 0);
    if (result == PGWAKE_TIMEOUT) {
      struct pollfd one = {pgwake_fd(handle), POLLIN, 0};
      poll(&one, 1, -1);
      continue;
    }
    check(result, "next");
    if (event->kind == PGWAKE_EVENT_WAKE) return event;
  }
}

static int by_size(const void* a, const void* b) {
  int64_t x = *(const int64_t*)a, y = *(const int64_t*)b;
  return (x > y) - (x < y);
}

static void latency(pgwake_handle* handle, size_t count) {
  int64_t* seen = malloc(count * sizeof *seen);
  for (size_t i = 0; i < count; ++i) {
    const char* payload = next_wake(handle)->payload;
    seen[i] = now() - strtoll(payload, NULL, 10);
  }
  qsort(seen, count, sizeof *seen, by_size);
  printf("{\"us\": %.3f}\n", (double)seen[count / 2] / 1e3);
  free(seen);
}

static void burst(pgwake_handle* handle, size_t count) {
  double used = processor();
  next_wake(handle);
  int64_t begun = now();
  for (size_t i = 1; i < count; ++i) next_wake(handle);
  double seconds = (double)(now() - begun) / 1e9;
  printf("{\"seconds\": %.6f, \"us\": %.1f}\n", seconds, processor() - used);
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  pgwake_options* options = pgwake_options_new();
  check(pgwake_options_set(options, "socket", argv[1]), "socket");
  check(pgwake_options_set(options, "database", argv[2]), "database");
  pgwake_handle* handle;
  check(pgwake_open(&handle, options), "open");
  pgwake_options_free(options);
  check(pgwake_subscribe(handle, argv[3], 60000), "subscribe");
  char line[64];
  puts("\"listens\"");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    puts("\"ready\"");
    fflush(stdout);
    if (strncmp(line, "latency ", 8) == 0) latency(handle, strtoul(line + 8, NULL, 10));
    if (strncmp(line, "burst ", 6) == 0) burst(handle, strtoul(line + 6, NULL, 10));
    fflush(stdout);
  }
  pgwake_close(handle);
  return 0;
}
