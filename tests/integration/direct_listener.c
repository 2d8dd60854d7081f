// A program whose library listens on its own connection: subscribes to the channel that it is given, prints
// each event on a line, and closes the handle at SIGTERM. Its memory is the library's, and little else.
#include <pgwake/pgwake.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

static volatile sig_atomic_t ending = 0;

static void end(int number) {
  (void)number;
  ending = 1;
}

static long long now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

static void print(const pgwake_event* e) {
  switch (e->kind) {
    case PGWAKE_EVENT_WAKE:
      if (e->gap != PGWAKE_GAP_NONE)
        printf("gap %s\n", pgwake_gap_name(e->gap));
      else
        printf("wake %s\n", e->payload != NULL ? e->payload : "");
      break;
    case PGWAKE_EVENT_STATE:
      printf("state %s %s %s\n", pgwake_source_name(e->source), e->healthy ? "healthy" : "ill", e->reason);
      break;
    case PGWAKE_EVENT_SUBSCRIBED:
      printf("subscribed %s\n", pgwake_result_name(e->result));
      break;
    default:
      break;
  }
}

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  signal(SIGTERM, end);
  pgwake_handle* handle = NULL;
  const char* channel = argc > 1 ? argv[1] : "c";
  if (pgwake_open(&handle, NULL) != PGWAKE_OK ||
      pgwake_subscribe_start(handle, &channel, 1, -1, 1) != PGWAKE_OK) {
    printf("failed: %s\n", pgwake_last_error());
    return 1;
  }
  while (!ending) {
    const pgwake_event* e = NULL;
    if (pgwake_next(handle, &e, 50) == PGWAKE_OK) print(e);
  }
  const long long begin = now_ms();
  pgwake_close(handle);
  printf("closed in %lld ms\n", now_ms() - begin);
  return 0;
}
