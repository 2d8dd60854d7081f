/* Opens a handle, subscribes, and exits without closing it, from inside exit handlers' reach. */
#include <pgwake/pgwake.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static pgwake_handle* handle;
static pthread_t waiting;
static atomic_int stop;

static void close_late(void) { pgwake_close(handle); }

static void* wait_for_events(void* timeout_ms) {
  const pgwake_event* event;
  int result;
  do {
    result = pgwake_next(handle, &event, *(const int*)timeout_ms);
  } while (!stop && (result == PGWAKE_OK || result == PGWAKE_TIMEOUT));
  return NULL;
}

static void join_late(void) {
  stop = 1;
  pthread_join(waiting, NULL);
  pgwake_close(handle);
}

static void shut_late(void) {
  pgwake_shutdown(handle);
  join_late();
}

int main(int argc, char** argv) {
  static int timeout_ms = 100;
  const char how = argc > 1 ? argv[1][0] : 'o';
  /* Registered first: these run after the library's own. */
  if (how == 'c') atexit(close_late);
  if (how == 'j') atexit(join_late);
  if (how == 's') atexit(shut_late);
  if (how == 's') timeout_ms = -1;
  if (pgwake_open(&handle, NULL) != PGWAKE_OK || pgwake_subscribe(handle, "c", 10000) != PGWAKE_OK) {
    fprintf(stderr, "%s\n", pgwake_last_error());
    return 1;
  }
  if ((how == 'j' || how == 's') && pthread_create(&waiting, NULL, wait_for_events, &timeout_ms) != 0)
    return 1;
  if (how == 'j' || how == 's') {
    /* Until it has taken the first event, who serves; then it waits. */
    pgwake_state state = {.size = sizeof state};
    do pgwake_get_state(handle, &state);
    while (state.waiting > 0);
  }
  return 0;
}
