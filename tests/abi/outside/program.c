/* Opens a handle with nobody to talk to, is reminded by the policy `poll`, closes. */
#include <pgwake/pgwake.h>
#include <stdio.h>
#include <string.h>

static int check(int good, const char* what) {
  if (!good) fprintf(stderr, "failed: %s: %s\n", what, pgwake_last_error());
  return good ? 0 : 1;
}

int main(void) {
  pgwake_options* options = pgwake_options_new();
  pgwake_handle* handle = NULL;
  const pgwake_event* event = NULL;
  pgwake_state state;
  int bad = 0;
  bad += check(strcmp(pgwake_version(), PGWAKE_VERSION) == 0, "header and library agree");
  bad += check(pgwake_options_set(options, "polcy", "poll") == PGWAKE_INVALID, "an unknown option");
  bad += check(pgwake_options_set(options, "policy", "sometimes") == PGWAKE_INVALID, "a wrong value");
  bad += check(pgwake_options_set(options, "policy", "poll") == PGWAKE_OK, "policy");
  bad += check(pgwake_options_set(options, "poll_interval", "20ms") == PGWAKE_OK, "poll_interval");
  bad += check(pgwake_options_set(options, "socket", "/nonexistent/pgwake.sock") == PGWAKE_OK, "socket");
  bad += check(pgwake_open(&handle, options) == PGWAKE_OK, "open");
  pgwake_options_free(options);
  bad += check(pgwake_subscribe(handle, "orders", 5000) == PGWAKE_OK, "subscribe");
  bad += check(pgwake_subscribe(handle, "", 5000) == PGWAKE_NACK, "an empty name");
  bad += check(pgwake_fd(handle) >= 0, "fd");
  do {
    bad += check(pgwake_next(handle, &event, 5000) == PGWAKE_OK, "next");
  } while (bad == 0 && event->kind != PGWAKE_EVENT_WAKE);
  bad +=
      check(event != NULL && strcmp(event->channel, "orders") == 0 && event->payload == NULL, "a reminder");
  memset(&state, 0xff, sizeof state);
  state.size = offsetof(pgwake_state, falls); /* as a program built with a shorter struct would say */
  bad += check(pgwake_get_state(handle, &state) == PGWAKE_OK, "state");
  bad += check(state.channels == 1 && state.falls == UINT64_MAX, "only what the program knows is written");
  {
    union {
      pgwake_record first;
      char bytes[16 * 1024];
    } room;
    char json[8 * 1024];
    size_t used = 0;
    const char* names[] = {"", "answers"};
    int count = 0;
    bad += check(pgwake_subscribe_start(handle, names, 2, 5000, 7) == PGWAKE_OK, "subscribe_start");
    do {
      count = pgwake_read(handle, &room, sizeof room, &used, 1, 5000);
      bad += check(count == 1 && used == room.first.size, "read");
    } while (bad == 0 && room.first.kind != PGWAKE_EVENT_SUBSCRIBED);
    bad += check(room.first.id == 7 && room.first.result == PGWAKE_NACK, "an empty name is refused");
    bad += check(strncmp(room.bytes + sizeof room.first + 2, "invalid_channel: ", 17) == 0, "and why");
    bad += check(pgwake_state_json(handle, json, sizeof json) == (int)strlen(json), "state_json");
    bad += check(strcmp(pgwake_result_name(PGWAKE_NACK), "nack") == 0, "result_name");
  }
  bad += check(pgwake_unsubscribe(handle, "orders") == PGWAKE_OK, "unsubscribe");
  pgwake_close(handle);
  return bad == 0 ? 0 : 1;
}
