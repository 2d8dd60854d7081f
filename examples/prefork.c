/* A pre-fork server: the master opens the handle, so that a wrong setting ends it before anything is forked;
 * each child opens it anew and is a worker of its own. The master notices nothing of that, and the hub has
 * one worker each.
 *
 *   ./prefork 4 jobs
 */
#define _POSIX_C_SOURCE 200809L
#include <pgwake/pgwake.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static int serve(pgwake_handle* handle, int number, const char* channel) {
  int result = pgwake_reopen(handle);
  if (result == PGWAKE_OK) result = pgwake_subscribe(handle, channel, 30000);
  if (result != PGWAKE_OK) {
    fprintf(stderr, "worker %d: %s: %s\n", number, pgwake_strerror(result), pgwake_last_error());
    return 1;
  }
  printf("worker %d is subscribed\n", number);
  fflush(stdout);
  const pgwake_event* event = NULL;
  while (pgwake_next(handle, &event, -1) == PGWAKE_OK) {
    if (event->kind != PGWAKE_EVENT_WAKE) continue;
    printf("worker %d: %s\n", number, event->payload != NULL ? event->payload : "something changed");
    fflush(stdout);
  }
  return 0;
}

int main(int argc, char** argv) {
  const int workers = argc > 1 ? atoi(argv[1]) : 4;
  const char* channel = argc > 2 ? argv[2] : "jobs";
  pgwake_handle* handle = NULL;
  if (pgwake_open(&handle, NULL) != PGWAKE_OK) {
    fprintf(stderr, "%s\n", pgwake_last_error());
    return 1;
  }
  for (int i = 1; i <= workers; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      const int code = serve(handle, i, channel);
      pgwake_close(handle);
      return code;
    }
    if (child < 0) {
      perror("fork");
      break;
    }
  }
  /* The master's own handle goes on as if nothing had happened; this one has no more use for it. */
  pgwake_close(handle);
  int bad = 0;
  for (int status = 0; wait(&status) > 0;) bad |= status != 0;
  return bad;
}
