/* The driver of the C face: the lines of tests/bindings/README.md, obeyed with pgwake.h. */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lines.h"
#include "pgwake/pgwake.h"

enum { most_workers = 16, read_room = 256 * 1024 };

typedef struct worker {
  char name[16];
  pgwake_handle* handle;
  int automatic; /* a call that answers FORKED reopens the handle and is made again, as docs/client.md says */
  pthread_t thread;
  int thread_result;
} worker;

static worker workers[most_workers];

static worker* find(const char* name) {
  for (size_t i = 0; i < most_workers; ++i)
    if (strcmp(workers[i].name, name) == 0) return &workers[i];
  for (size_t i = 0; i < most_workers; ++i) {
    if (workers[i].name[0] != '\0') continue;
    snprintf(workers[i].name, sizeof workers[i].name, "%s", name);
    return &workers[i];
  }
  fputs("driver: too many handles\n", stderr);
  exit(2);
}

static void say_failure(int result, const char* channel) {
  const char* code = pgwake_nack_code();
  lines_raw("{\"error\":");
  const char* name = result == PGWAKE_NACK ? "refused" : pgwake_result_name(result);
  lines_text(name, strlen(name));
  lines_named("text", pgwake_last_error());
  if (result == PGWAKE_NACK) {
    lines_named("code", code);
    lines_named("channel", channel == NULL ? "" : channel);
  }
  lines_raw("}");
  lines_send();
}

static void say_result(int result) {
  if (result < 0)
    say_failure(result, NULL);
  else
    lines_is(1);
}

static void say_event(const pgwake_event* e) {
  static const char* const kinds[] = {"", "wake", "state", "refused", "subscribed"};
  lines_raw("{\"kind\":");
  lines_text(kinds[e->kind], strlen(kinds[e->kind]));
  lines_named("source", pgwake_source_name(e->source));
  lines_named("gap", pgwake_gap_name(e->gap));
  lines_number("by", e->by);
  lines_named("channel", e->channel == NULL ? "" : e->channel);
  lines_named("reason", e->reason == NULL ? "" : e->reason);
  lines_raw(e->healthy ? ",\"healthy\":true" : ",\"healthy\":false");
  lines_raw((e->flags & PGWAKE_FLAG_NOT_UTF8) != 0 ? ",\"utf8\":false" : ",\"utf8\":true");
  lines_raw(",\"payload\":");
  if (e->payload == NULL)
    lines_raw("null}");
  else
    lines_text(e->payload, e->payload_size), lines_raw("}");
}

/* Whether the call is to be made again. */
static int again(worker* w, int result) {
  return result == PGWAKE_FORKED && w->automatic && pgwake_reopen_subscribed(w->handle) == PGWAKE_OK;
}

static int set_options(worker* w, pgwake_options* options, char** words, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    char* value = strchr(words[i], '=');
    if (value == NULL) return PGWAKE_INVALID;
    *value++ = '\0';
    if (strcmp(words[i], "reopen") == 0) {
      w->automatic = strcmp(value, "auto") == 0;
    } else if (strcmp(words[i], "ignore_environment") == 0) {
      pgwake_options_ignore_environment(options);
    } else {
      const int result = pgwake_options_set(options, words[i], value);
      if (result != PGWAKE_OK) return result;
    }
  }
  return PGWAKE_OK;
}

static void open_handle(worker* w, char** words, size_t count) {
  pgwake_options* options = pgwake_options_new();
  w->automatic = 1;
  int result = set_options(w, options, words, count);
  if (result == PGWAKE_OK) result = pgwake_open(&w->handle, options);
  say_result(result);
  pgwake_options_free(options);
}

static void subscribe(worker* w, char** channels, size_t count, int timeout) {
  int* results = calloc(count + 1, sizeof *results);
  int result;
  do {
    result = count == 1
                 ? results[0] = pgwake_subscribe(w->handle, channels[0], timeout)
                 : pgwake_subscribe_many(w->handle, (const char* const*)channels, count, timeout, results);
  } while (again(w, result));
  size_t first = 0;
  while (first < count && results[first] == PGWAKE_OK) ++first;
  if (result != PGWAKE_OK)
    say_failure(result, first < count ? channels[first] : NULL);
  else
    lines_is(1);
  free(results);
}

static void unsubscribe(worker* w, char** channels, size_t count) {
  int result = PGWAKE_OK;
  for (size_t i = 0; i < count && result == PGWAKE_OK; ++i) do
      result = pgwake_unsubscribe(w->handle, channels[i]);
    while (again(w, result));
  say_result(result);
}

static void next(worker* w, int timeout) {
  const pgwake_event* event = NULL;
  int result;
  do result = pgwake_next(w->handle, &event, timeout);
  while (again(w, result));
  if (result != PGWAKE_OK && result != PGWAKE_TIMEOUT) {
    say_failure(result, NULL);
    return;
  }
  lines_raw("{\"is\":");
  if (event == NULL)
    lines_raw("null");
  else
    say_event(event);
  lines_raw("}");
  lines_send();
}

static void say_record(const pgwake_record* r) {
  const char* channel = (const char*)(r + 1);
  const char* payload = channel + r->channel_size + 1;
  const pgwake_event event = {
      .kind = r->kind,
      .source = r->source,
      .gap = r->gap,
      .by = r->by,
      .healthy = (r->flags & PGWAKE_FLAG_HEALTHY) != 0,
      .channel = channel,
      .payload = (r->flags & PGWAKE_FLAG_PAYLOAD) != 0 ? payload : NULL,
      .payload_size = r->payload_size,
      .reason = payload + r->payload_size + 1,
      .flags = r->flags,
  };
  say_event(&event);
}

static void read_batch(worker* w, size_t most) {
  static uint64_t buffer[read_room / sizeof(uint64_t)];
  size_t used = 0;
  int result;
  do result = pgwake_read(w->handle, buffer, sizeof buffer, &used, most, 0);
  while (again(w, result));
  if (result < 0) {
    say_failure(result, NULL);
    return;
  }
  lines_raw("{\"is\":[");
  for (size_t at = 0; at < used;) {
    const pgwake_record* record = (const pgwake_record*)((const char*)buffer + at);
    if (at > 0) lines_raw(",");
    say_record(record);
    at += record->size;
  }
  lines_raw("]}");
  lines_send();
}

static void readable(worker* w, int timeout) {
  int fd;
  do fd = pgwake_fd(w->handle);
  while (again(w, fd));
  if (fd < 0) {
    say_failure(fd, NULL);
    return;
  }
  struct pollfd look = {.fd = fd, .events = POLLIN};
  lines_is(poll(&look, 1, timeout) > 0);
}

static void say_state(worker* w) {
  char text[8 * 1024];
  int result;
  do result = pgwake_state_json(w->handle, text, sizeof text);
  while (again(w, result));
  if (result < 0) {
    say_failure(result, NULL);
    return;
  }
  lines_raw("{\"is\":");
  lines_raw(text);
  lines_raw("}");
  lines_send();
}

static void* wait_for_ever(void* user) {
  worker* w = user;
  const pgwake_event* event = NULL;
  do w->thread_result = pgwake_next(w->handle, &event, -1);
  while (w->thread_result == PGWAKE_OK);
  return NULL;
}

static void obey(const lines_request* request) {
  const char* verb = request->words[0];
  if (request->count < 2) exit(2);
  worker* w = find(request->words[1]);
  char** rest = request->words + 2;
  const size_t count = request->count - 2;
  const int number = count > 0 ? atoi(rest[0]) : 0;
  if (strcmp(verb, "open") == 0) {
    open_handle(w, rest, count);
  } else if (strcmp(verb, "subscribe") == 0) {
    subscribe(w, rest + 1, count - 1, number);
  } else if (strcmp(verb, "unsubscribe") == 0) {
    unsubscribe(w, rest, count);
  } else if (strcmp(verb, "next") == 0) {
    next(w, number);
  } else if (strcmp(verb, "read") == 0) {
    read_batch(w, (size_t)number);
  } else if (strcmp(verb, "readable") == 0) {
    readable(w, number);
  } else if (strcmp(verb, "state") == 0) {
    say_state(w);
  } else if (strcmp(verb, "reopen") == 0) {
    say_result(pgwake_reopen_subscribed(w->handle));
  } else if (strcmp(verb, "thread") == 0) {
    lines_is(pthread_create(&w->thread, NULL, wait_for_ever, w) == 0);
  } else if (strcmp(verb, "join") == 0) {
    pthread_join(w->thread, NULL);
    say_failure(w->thread_result, NULL);
  } else if (strcmp(verb, "shutdown") == 0) {
    say_result(pgwake_shutdown(w->handle));
  } else if (strcmp(verb, "close") == 0) {
    pgwake_close(w->handle);
    w->handle = NULL;
    lines_is(1);
  } else {
    fprintf(stderr, "driver: \"%s\" is not a valid request\n", verb);
    exit(2);
  }
}

int main(void) {
  lines_request request;
  while (lines_read(&request))
    if (!lines_process_request(&request)) obey(&request);
  return 0;
}
