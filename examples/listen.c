/* The smallest worker in C: subscribe, read, then wait for wakes. cc listen.c $(pkg-config --cflags --libs
 * pgwake) */
#include <pgwake/pgwake.h>
#include <stdio.h>

static void read_orders(void) { puts("reading the orders table"); }

int main(void) {
  pgwake_handle* handle = NULL;
  int result = pgwake_open(&handle, NULL); /* the socket and the database: PGWAKE_SOCKET, PGWAKE_DATABASE */
  if (result == PGWAKE_OK) result = pgwake_subscribe(handle, "orders", 10000);
  if (result != PGWAKE_OK) {
    fprintf(stderr, "%s: %s\n", pgwake_strerror(result), pgwake_last_error());
    pgwake_close(handle);
    return 1;
  }
  read_orders(); /* after subscribing: what changes from now on brings a wake */

  const pgwake_event* event = NULL;
  while (pgwake_next(handle, &event, -1) == PGWAKE_OK) {
    if (event->kind != PGWAKE_EVENT_WAKE) continue;
    if (event->payload != NULL) {
      printf("%s: %s\n", event->channel, event->payload);
    } else {
      read_orders(); /* something changed, or (event->gap) something may have been missed */
    }
    fflush(stdout);
  }
  pgwake_close(handle);
  return 0;
}
