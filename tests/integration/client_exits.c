/* Opens a handle, subscribes, and exits without closing it, from inside exit handlers' reach. */
#include <pgwake/pgwake.h>
#include <stdio.h>
#include <stdlib.h>

static pgwake_handle* handle;

static void close_late(void) { pgwake_close(handle); }

int main(int argc, char** argv) {
  if (argc > 1 && argv[1][0] == 'c') atexit(close_late); /* registered first: runs after the library's own */
  if (pgwake_open(&handle, NULL) != PGWAKE_OK || pgwake_subscribe(handle, "c", 10000) != PGWAKE_OK) {
    fprintf(stderr, "%s\n", pgwake_last_error());
    return 1;
  }
  return 0;
}
