/* Follows a table (cursor.sql) without a race and without polling: subscribe, read from the cursor to the
 * end, wait; read again on each wake and on each gap. Prints each row once, in order, whatever happens to hub
 * and connections.
 *
 *   PGWAKE_DATABASE=dbname=shop ./cursor
 */
#include <libpq-fe.h>
#include <pgwake/pgwake.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char cursor[32] = "0"; /* the last number printed */

/* 0: read to the end; -1: the reading connection is lost. */
static int read_on(PGconn* conn) {
  const char* values[1] = {cursor};
  PGresult* rows = PQexecParams(conn, "SELECT id, what FROM orders WHERE id > $1 ORDER BY id", 1, NULL,
                                values, NULL, NULL, 0);
  if (PQresultStatus(rows) != PGRES_TUPLES_OK) {
    fprintf(stderr, "%s", PQerrorMessage(conn));
    PQclear(rows);
    return -1;
  }
  for (int i = 0; i < PQntuples(rows); ++i) {
    printf("%s %s\n", PQgetvalue(rows, i, 0), PQgetvalue(rows, i, 1));
    snprintf(cursor, sizeof cursor, "%s", PQgetvalue(rows, i, 0));
  }
  fflush(stdout);
  PQclear(rows);
  return 0;
}

/* Reading has a connection of its own, which any pooler may serve. It is made anew until it works. */
static void read_again(PGconn* conn) {
  while (read_on(conn) != 0) PQreset(conn);
}

int main(void) {
  const char* database = getenv("PGWAKE_DATABASE");
  PGconn* conn = PQconnectdb(database != NULL ? database : "");
  pgwake_handle* handle = NULL;
  int result = pgwake_open(&handle, NULL);
  if (result == PGWAKE_OK) result = pgwake_subscribe(handle, "orders", 30000);
  if (result != PGWAKE_OK) {
    fprintf(stderr, "%s: %s\n", pgwake_strerror(result), pgwake_last_error());
    return 1;
  }
  read_again(conn); /* after subscribing: what is committed from here on brings a wake */

  const pgwake_event* event = NULL;
  while (pgwake_next(handle, &event, -1) == PGWAKE_OK) {
    if (event->kind == PGWAKE_EVENT_REFUSED) {
      fprintf(stderr, "%s\n", event->reason);
      return 1;
    }
    if (event->kind == PGWAKE_EVENT_WAKE) read_again(conn); /* a change, or a gap */
  }
  pgwake_close(handle);
  PQfinish(conn);
  return 0;
}
