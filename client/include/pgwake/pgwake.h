/*
 * pgwake: LISTEN/NOTIFY wakes from the host's hub, and from an own PostgreSQL connection while the hub is
 * away.
 *
 * One handle is one worker. It connects to the hub's Unix socket (`pgwaked`), subscribes to channels and
 * queues what comes. When the hub cannot serve, it falls back to an own LISTEN connection, and goes back when
 * the hub is well again; the program sees one stream of events. What may have been missed is always announced
 * (`gap`).
 *
 * The pattern without a race: subscribe, then read your table, then wait for wakes; read the table again on a
 * wake without payload and on every gap.
 *
 * Threads: a handle may be used from any thread, and by several at once, except where a call says otherwise.
 * pgwake_close() must be the last call of all. The library has one background thread per handle, one more
 * while it connects to PostgreSQL, both with all signals blocked. It installs no signal handler and writes
 * nothing.
 * A thread that waits for an event does the background thread's work meanwhile, which spares a change of
 * threads for each event; when it stays away for more than 20 ms, the background thread is back at it.
 *
 * Times are milliseconds, measured by the monotonic clock. As a deadline, 0 means "do not wait" and a
 * negative number "wait for ever".
 *
 * Text that the library hands out is UTF-8 where the database's is, and ends with a NUL byte which is not
 * counted.
 */
#ifndef PGWAKE_H
#define PGWAKE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define PGWAKE_API __attribute__((visibility("default")))
#else
#define PGWAKE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define PGWAKE_VERSION "0.1.0"

/* What a call answers. All but PGWAKE_OK are negative. More may be added; see pgwake_strerror(). */
enum pgwake_result {
  PGWAKE_OK = 0,
  PGWAKE_TIMEOUT = -1, /* the deadline passed; nothing was changed by the call */
  PGWAKE_NACK = -2,    /* the channel was refused and will be again; pgwake_last_error() says why */
  PGWAKE_FORKED = -3,  /* this handle belongs to the parent process; pgwake_reopen() it here */
  PGWAKE_CLOSED = -4,  /* the handle is being closed, or the channel was unsubscribed meanwhile */
  PGWAKE_NOMEM = -5,   /* out of memory */
  PGWAKE_INVALID = -6, /* an argument or a setting makes no sense */
  PGWAKE_SYSTEM = -7   /* the system refused a descriptor or a thread */
};

/* Who serves this handle, or where an event came from. */
enum pgwake_source {
  PGWAKE_SOURCE_NONE = 0, /* nobody; of an event: the library itself (a poll, a gap of its own queue) */
  PGWAKE_SOURCE_HUB = 1,  /* the hub */
  PGWAKE_SOURCE_OWN = 2   /* an own PostgreSQL connection */
};

/* Why notifications on a channel may have been missed before this event. */
enum pgwake_gap {
  PGWAKE_GAP_NONE = 0,
  PGWAKE_GAP_RECONNECT = 1, /* the connection to PostgreSQL was lost and is back */
  PGWAKE_GAP_HUB_LOST = 2,  /* the hub was lost without a hand-over */
  PGWAKE_GAP_OVERFLOW = 3,  /* the program did not take its events and the queue hit `queue_max_bytes` */
  PGWAKE_GAP_FORKED = 4     /* the first of a channel that pgwake_reopen_subscribed() has kept */
};

enum pgwake_event_kind {
  PGWAKE_EVENT_WAKE = 1,      /* a notification, a poll's reminder, or a gap */
  PGWAKE_EVENT_STATE = 2,     /* who serves this handle, or how well, has changed */
  PGWAKE_EVENT_REFUSED = 3,   /* a channel that was subscribed is refused now (the hub's rules have changed,
                                 say); it is subscribed no longer; `reason` says why */
  PGWAKE_EVENT_SUBSCRIBED = 4 /* the answer to pgwake_subscribe_start() for one channel: `id` is the call's,
                                 `result` how it ended, `reason` why */
};

/* Flags of an event. */
enum pgwake_flag {
  PGWAKE_FLAG_PAYLOAD = 1, /* it has a payload, of 0 bytes perhaps */
  PGWAKE_FLAG_HEALTHY = 2, /* STATE: as `healthy` */
  PGWAKE_FLAG_NOT_UTF8 = 4 /* channel, payload or reason holds bytes that are not UTF-8 */
};

/* One worker. (Not named pgwake: that is the C++ namespace.) */
typedef struct pgwake_handle pgwake_handle;
typedef struct pgwake_options pgwake_options;

/*
 * One event. Made by the library alone, so that members can be added at its end.
 */
typedef struct pgwake_event {
  int32_t kind;        /* enum pgwake_event_kind; skip what you do not know */
  int32_t source;      /* enum pgwake_source: where it came from; STATE: who serves now */
  int32_t gap;         /* enum pgwake_gap; not 0: read again whatever the channel stands for */
  int32_t by;          /* process id of the PostgreSQL backend that notified, 0: unknown or several */
  int32_t healthy;     /* STATE: 1 if everything subscribed is being served, 0 if not; `reason` says why, and
                          why the hub is not used where that lasts (it may not be connected to, say) */
  const char* channel; /* NULL for STATE */
  const char* payload; /* NULL: durable, "something changed, read again". It may hold any bytes but NUL */
  size_t payload_size;
  const char* reason; /* STATE, REFUSED, SUBSCRIBED: for people; else NULL */
  uint64_t id;        /* SUBSCRIBED: as given to pgwake_subscribe_start(). From here on: since PGWAKE_1.1 */
  int32_t result;     /* SUBSCRIBED: enum pgwake_result */
  uint32_t flags;     /* enum pgwake_flag */
} pgwake_event;

/* ---- Options
 * ------------------------------------------------------------------------------------------------ */

/*
 * A new set of options, all at their defaults; NULL: out of memory. Free it with pgwake_options_free(). One
 * thread at a time.
 */
PGWAKE_API pgwake_options* pgwake_options_new(void);
PGWAKE_API void pgwake_options_free(pgwake_options* options); /* NULL is fine */

/*
 * Sets one option, named and written as in docs/client.md, such as ("policy", "poll") or ("poll_interval",
 * "500ms"). PGWAKE_INVALID: no such option, or the value makes no sense; pgwake_last_error() then begins
 * with the option's name and its value, and says the accepted form.
 *
 * Every option can be set from outside by an environment variable, PGWAKE_ and the name in capitals
 * (`application_name`: PGWAKE_FALLBACK_APPLICATION_NAME; the one without FALLBACK is the hub's). For
 * `socket`, `database`, `name` and `application_name` the program wins over the environment; for all others
 * the environment wins over the program, so that whoever operates it can change the policy of a fleet
 * (PGWAKE_POLICY=direct).
 */
PGWAKE_API int pgwake_options_set(pgwake_options* options, const char* name, const char* value);

/* The environment is not looked at. */
PGWAKE_API int pgwake_options_ignore_environment(pgwake_options* options);

/*
 * The table of options: for index 0, 1, ... the name of each, its environment variable, its default and one
 * line about it; each pointer may be NULL. PGWAKE_INVALID past the end. The texts live as long as the
 * library.
 */
PGWAKE_API int pgwake_option_info(size_t index, const char** name, const char** environment,
                                  const char** default_value, const char** about);

/* ---- A handle's life
 * ---------------------------------------------------------------------------------------- */

/*
 * Opens a handle and starts to connect in the background; never waits for the network. `options` may be NULL
 * (all defaults) and are copied. The environment is read here, once. PGWAKE_INVALID: an option or an
 * environment variable makes no sense; pgwake_last_error() begins with the name of the one or the other.
 * PGWAKE_SYSTEM: no descriptor or thread. *handle is NULL on every error.
 */
PGWAKE_API int pgwake_open(pgwake_handle** handle, const pgwake_options* options);

/*
 * Calls on this handle that wait, or come later, answer PGWAKE_CLOSED; its subscriptions end. For a program
 * that must bring its own threads back before it may call pgwake_close(). Any thread; does not wait.
 */
PGWAKE_API int pgwake_shutdown(pgwake_handle* handle);

/*
 * Ends everything and frees the handle: subscriptions end, calls that wait elsewhere answer PGWAKE_CLOSED,
 * and it waits for them to return; none may begin after it. In a forked child it frees what is the child's
 * and says nothing to hub or server. NULL is fine. Takes a few milliseconds at most.
 */
PGWAKE_API void pgwake_close(pgwake_handle* handle);

/*
 * After fork() every call on an inherited handle answers PGWAKE_FORKED in the child, whose copies of the
 * library's descriptors were closed at the fork without a word to hub or server; the parent notices nothing.
 * This opens the handle anew in the child, with the options it was opened with, no subscriptions and an empty
 * queue. Ask pgwake_fd() again. One thread, before any other uses it. Errors as pgwake_open(); the handle
 * then stays forked. PGWAKE_INVALID: the handle is this process's own.
 */
PGWAKE_API int pgwake_reopen(pgwake_handle* handle);

/*
 * The same, and what was subscribed at the fork stays so. Waits for nobody: each of these channels is
 * announced by a gap of the cause PGWAKE_GAP_FORKED once it is active here, and an event PGWAKE_EVENT_REFUSED
 * says so if it is refused. A subscribe that was under way at the fork is not kept. PGWAKE_SYSTEM also when
 * the fork has interrupted the library's own work (it went round the C library, say), so that what was
 * subscribed is not known: pgwake_reopen() then.
 */
PGWAKE_API int pgwake_reopen_subscribed(pgwake_handle* handle);

/* ---- Channels
 * ----------------------------------------------------------------------------------------------- */

/*
 * Subscribes to a channel (as in NOTIFY, upper and lower case kept; 1 to 63 bytes). Once it answers PGWAKE_OK
 * every notification committed from now on is delivered, or a gap on that channel is. Subscribing does not
 * nest: one unsubscribe ends it. PGWAKE_TIMEOUT: not within the deadline; it is not subscribed (unless it was
 * before). PGWAKE_NACK: refused; with the code "limit" also where the handle has 100,000 channels already,
 * which is no fault of the hub's or the server's. While nobody serves, the policies `poll` and `none`, and
 * `listener` without a slot, answer PGWAKE_OK at once; a gap follows when somebody does.
 */
PGWAKE_API int pgwake_subscribe(pgwake_handle* handle, const char* channel, int timeout_ms);

/*
 * The same for many channels, sent without waiting in between. `results` is NULL or has room for `count`
 * answers, one for each channel. Answers PGWAKE_OK if all are subscribed, else the first answer that is not;
 * those that are subscribed stay so.
 */
PGWAKE_API int pgwake_subscribe_many(pgwake_handle* handle, const char* const* channels, size_t count,
                                     int timeout_ms, int* results);

/*
 * The same without waiting: the answers are events PGWAKE_EVENT_SUBSCRIBED, one for each channel, each with
 * this `id`, and stand before any event that the subscription brings. An answer's `result` is one that
 * pgwake_subscribe() gives, and its `reason` what pgwake_last_error() would say then. PGWAKE_OK: that many
 * answers will come, unless the handle is closed before. PGWAKE_NACK with the code "limit": nothing was done,
 * since answers of 64 MiB (some 250,000) are owed or wait to be taken; take events first.
 */
PGWAKE_API int pgwake_subscribe_start(pgwake_handle* handle, const char* const* channels, size_t count,
                                      int timeout_ms, uint64_t id);

/*
 * Ends a subscription; waits for nobody. No event of that channel is handed out after it has returned, those
 * that waited included. A channel that is not subscribed is fine.
 */
PGWAKE_API int pgwake_unsubscribe(pgwake_handle* handle, const char* channel);

/* ---- Events
 * ------------------------------------------------------------------------------------------------- */

/*
 * A descriptor that is readable while events wait, for poll, epoll, libuv, asyncio and the like
 * (level-triggered), and from pgwake_shutdown() on. Only look at its readiness: never read, write or close
 * it. The same for the handle's whole life, until pgwake_reopen(). Negative: an error as above.
 */
PGWAKE_API int pgwake_fd(pgwake_handle* handle);

/*
 * One end of a new pair of sockets, for event loops that want to own what they watch (Node's net.Socket). It
 * gets a byte when an event comes while none waited, so: read what it holds, then take events until none
 * waits. It is the caller's to close (non-blocking, close-on-exec); it ends when the handle is closed, when
 * this is called again, and at a fork. Negative: an error as above.
 */
PGWAKE_API int pgwake_wake_socket(pgwake_handle* handle);

/*
 * The next event; waits for it until the deadline. *event and what it points to are valid until the next call
 * of pgwake_next(), pgwake_dispatch() or pgwake_close() on this handle; so only one thread at a time may take
 * events. PGWAKE_TIMEOUT: none came (*event is NULL).
 */
PGWAKE_API int pgwake_next(pgwake_handle* handle, const pgwake_event** event, int timeout_ms);

/*
 * The same with a callback: waits until events are there, then calls `callback` for each of them, on this
 * thread, at most `max` times (0: all that wait). Answers how many, 0 when the deadline passed, or a negative
 * error. An event is valid during its call. A callback may use the handle, but not take events or close it.
 * If it answers other than 0, no more are handed out this time.
 */
typedef int (*pgwake_callback)(const pgwake_event* event, void* user);
PGWAKE_API int pgwake_dispatch(pgwake_handle* handle, pgwake_callback callback, void* user, size_t max,
                               int timeout_ms);

/*
 * One event in a buffer that pgwake_read() has filled. Behind it stand channel, payload and reason, each with
 * a NUL byte at its end that is not counted. Numbers are in the machine's byte order. The next record begins
 * `size` bytes after the beginning of this one.
 */
typedef struct pgwake_record {
  uint32_t size; /* of all of it, a multiple of 8 */
  int32_t kind;  /* from here on as in pgwake_event */
  int32_t source;
  int32_t gap;
  int32_t by;
  uint32_t flags;
  int32_t result;
  uint32_t channel_size;
  uint32_t payload_size;
  uint32_t reason_size;
  uint64_t id;
} pgwake_record;

/*
 * Takes many events at once: waits until events are there, then copies what waits into `buffer`, at most
 * `max` events (0: all) and `room` bytes. *used is how many bytes were filled. Answers how many events, 0
 * when the deadline passed, or a negative error. What does not fit stays. PGWAKE_INVALID with *used not 0:
 * the next event does not fit into an empty buffer, it needs *used bytes. 16 KiB have room for any
 * notification; 64 KiB cost little and save calls. A buffer that is aligned to 8 bytes can be read through
 * pgwake_record pointers. What was copied is the caller's; the rule that one thread at a time takes events is
 * for pgwake_next() and pgwake_dispatch().
 */
PGWAKE_API int pgwake_read(pgwake_handle* handle, void* buffer, size_t room, size_t* used, size_t max,
                           int timeout_ms);

/* ---- What is going on
 * --------------------------------------------------------------------------------------- */

/*
 * A snapshot. Set `size` to sizeof(pgwake_state) before the call: a program built with an older header gets
 * the members it knows.
 */
typedef struct pgwake_state {
  size_t size;
  int32_t source;         /* enum pgwake_source: who serves now */
  int32_t healthy;        /* 1: everything subscribed is being served */
  int32_t handing_over;   /* 1: an exact hand-over between hub and own connection is under way */
  int32_t own_slot;       /* 1: holds a slot of `fallback_limit` */
  uint64_t channels;      /* subscribed */
  uint64_t waiting;       /* events that wait to be taken */
  uint64_t waiting_bytes; /* of memory that they take */
  uint64_t wakes;         /* put into the queue since the handle was opened, polls and gaps included */
  uint64_t coalesced;     /* durable wakes merged into one that waited */
  uint64_t discarded;     /* events lost to `queue_max_bytes`, each followed by a gap */
  uint64_t gaps;          /* announced */
  uint64_t falls;         /* changes to the own connection without a hand-over */
  uint64_t handovers;     /* exact ones, in either direction */
  uint64_t handovers_aborted;
  uint64_t hub_connects;
  uint64_t own_connects;
  char reason[160]; /* why not healthy, for people; "" if healthy */
  char hub[64];     /* the hub's UUID while connected to it, or "" */
} pgwake_state;

PGWAKE_API int pgwake_get_state(pgwake_handle* handle, pgwake_state* state);

/*
 * The same as a JSON object whose members are named as those of pgwake_state (no `size`; `source` by name;
 * truth values for what is 0 or 1), with a NUL byte at its end that is not counted. Answers its length.
 * PGWAKE_INVALID: `room` is too small; 8 KiB never are.
 */
PGWAKE_API int pgwake_state_json(pgwake_handle* handle, char* buffer, size_t room);

/*
 * What the last call of this thread that failed had to say, for people; "" if there is nothing to say. Valid
 * until this thread's next call of the library. For PGWAKE_NACK it begins with the code and a colon, such as
 * "forbidden: ...".
 */
PGWAKE_API const char* pgwake_last_error(void);

/*
 * The code alone of what the last call of this thread that failed was refused for, such as "forbidden"; "" if
 * it was no PGWAKE_NACK. Lives as long as the library.
 */
PGWAKE_API const char* pgwake_nack_code(void);

/* "ok", "timeout", "nack", "forked", "closed", "nomem", "invalid", "system", or "unknown". Never NULL. */
PGWAKE_API const char* pgwake_result_name(int result);

/* A result in words. Never NULL. */
PGWAKE_API const char* pgwake_strerror(int result);

/* The library's version, such as "0.1.0". */
PGWAKE_API const char* pgwake_version(void);

/* "hub", "own" or "none"; "reconnect", "hub_lost", "overflow", "forked" or "". Never NULL. */
PGWAKE_API const char* pgwake_source_name(int source);
PGWAKE_API const char* pgwake_gap_name(int gap);

#ifdef __cplusplus
}
#endif

#endif
