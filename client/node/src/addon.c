/*
 * libpgwake for Node.js. It makes no decision: options, channels and records pass as they are, and lib/ does
 * the rest.
 *
 * Nothing here waits on the loop's thread: a descriptor tells when there is something to read (uv_poll), and
 * closing, which takes milliseconds, is done by a thread of libuv's pool.
 *
 * One listener is closed by one chain, whoever starts it: stop polling -> (loop) -> pgwake_close() -> (loop)
 * -> free. The environment's cleanup hook (the end of a worker thread or of the process) starts it too, and
 * is done when the chain is.
 *
 * The library is never unloaded: other environments of the process may use it. It is found at run time, so
 * that this file's object depends on Node.js alone.
 */
#define NAPI_VERSION 8
#include <dlfcn.h>
#include <node_api.h>
#include <pgwake/pgwake.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

/* ---- The library, one for all environments of the process ---- */

#define FUNCTIONS(use)                                                                                      \
  use(options_new) use(options_free) use(options_set) use(options_ignore_environment) use(open) use(close)  \
      use(shutdown) use(subscribe_start) use(unsubscribe) use(fd) use(read) use(state_json) use(last_error) \
          use(result_name) use(strerror) use(version)

#define DECLARE(name) __typeof__(pgwake_##name)* name;
static struct { FUNCTIONS(DECLARE) } library;
static bool loaded;
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

/* NULL, or the name of a function that is not there. */
static const char* find_functions(void* in) {
#define FIND(name) \
  if (!(*(void**)& library.name = dlsym(in, "pgwake_" #name))) return "pgwake_" #name;
  FUNCTIONS(FIND)
  return NULL;
}

/* ---- Listeners ---- */

typedef struct {
  pgwake_handle* native;
  napi_env env;
  napi_ref callback; /* called with false: there is something to read; with true: it is closed */
  napi_async_context context;
  napi_async_cleanup_hook_handle hook;
  uv_poll_t poll;
  uv_work_t work;
  bool closing;
  bool torn_down; /* the environment ends: no call of JavaScript any more */
  int owners;     /* JavaScript's object, and the chain that closes */
} listener;

static void release(listener* l) {
  if (--l->owners == 0) free(l);
}

static void call_back(listener* l, bool closed) {
  napi_env env = l->env;
  napi_handle_scope scope;
  if (napi_open_handle_scope(env, &scope) != napi_ok) return;
  napi_value callback, global, argument, error;
  bool failed = false;
  if (napi_get_reference_value(env, l->callback, &callback) == napi_ok &&
      napi_get_global(env, &global) == napi_ok && napi_get_boolean(env, closed, &argument) == napi_ok)
    napi_make_callback(env, l->context, global, callback, 1, &argument, NULL);
  /* What a handler has thrown arrives as from any other handler: 'uncaughtException'. */
  if (napi_is_exception_pending(env, &failed) == napi_ok && failed &&
      napi_get_and_clear_last_exception(env, &error) == napi_ok)
    napi_fatal_exception(env, error);
  napi_close_handle_scope(env, scope);
}

static void on_readable(uv_poll_t* poll, int status, int events) {
  (void)status;
  (void)events;
  call_back(poll->data, false);
}

static void forget_environment(listener* l) {
  napi_delete_reference(l->env, l->callback);
  napi_async_destroy(l->env, l->context);
}

static void close_native(uv_work_t* work) {
  listener* l = work->data;
  library.close(l->native);
}

static void on_closed(uv_work_t* work, int status) {
  (void)status;
  listener* l = work->data;
  if (!l->torn_down) {
    call_back(l, true);
    forget_environment(l);
  }
  napi_remove_async_cleanup_hook(l->hook);
  release(l);
}

static void on_poll_closed(uv_handle_t* poll) {
  listener* l = poll->data;
  l->work.data = l;
  /* At the environment's end nobody is kept waiting, and the pool may be busy for long. */
  if (!l->torn_down && uv_queue_work(poll->loop, &l->work, close_native, on_closed) == 0) return;
  close_native(&l->work);
  on_closed(&l->work, 0);
}

static void start_closing(listener* l) {
  if (l->closing) return;
  l->closing = true;
  library.shutdown(l->native);
  uv_poll_stop(&l->poll);
  uv_close((uv_handle_t*)&l->poll, on_poll_closed);
}

static void on_environment_end(napi_async_cleanup_hook_handle hook, void* data) {
  (void)hook;
  listener* l = data;
  if (l->torn_down) return;
  forget_environment(l);
  l->torn_down = true;
  start_closing(l);
}

/* The object is collected after it was closed, or with the environment. */
static void on_collected(napi_env env, void* data, void* hint) {
  (void)env;
  (void)hint;
  release(data);
}

/* ---- From and to JavaScript; lib/ has checked all types ---- */

static napi_value throw_result(napi_env env, int result) {
  const char* why = library.last_error();
  napi_throw_error(env, library.result_name(result), *why ? why : library.strerror(result));
  return NULL;
}

static napi_value throw_broken(napi_env env, const char* what) {
  bool pending = false;
  napi_is_exception_pending(env, &pending);
  if (!pending) napi_throw_error(env, NULL, what);
  return NULL;
}

static bool arguments_of(napi_env env, napi_callback_info info, size_t count, napi_value* values) {
  size_t given = count;
  if (napi_get_cb_info(env, info, &given, values, NULL, NULL) == napi_ok && given == count) return true;
  throw_broken(env, "wrong arguments");
  return false;
}

static listener* listener_of(napi_env env, napi_value value) {
  void* data = NULL;
  if (napi_get_value_external(env, value, &data) != napi_ok) throw_broken(env, "not a listener");
  return data;
}

/* Text in memory that free() takes. */
static char* text_of(napi_env env, napi_value value, size_t* size) {
  char* text = NULL;
  if (napi_get_value_string_utf8(env, value, NULL, 0, size) == napi_ok && (text = malloc(*size + 1)))
    if (napi_get_value_string_utf8(env, value, text, *size + 1, size) == napi_ok) return text;
  free(text);
  throw_broken(env, "not a string");
  return NULL;
}

/* Strings with a NUL between them, as a table that free() takes with all of them. */
static const char** strings_of(napi_env env, napi_value value, size_t* count) {
  size_t size;
  char* text = text_of(env, value, &size);
  if (!text) return NULL;
  *count = 1;
  for (size_t i = 0; i < size; ++i) *count += text[i] == 0;
  const char** table = malloc(*count * sizeof *table + size + 1);
  if (table) {
    char* at = memcpy(table + *count, text, size + 1);
    for (size_t i = 0; i < *count; ++i, at += strlen(at) + 1) table[i] = at;
  } else {
    throw_broken(env, "out of memory");
  }
  free(text);
  return table;
}

static napi_value number(napi_env env, int64_t value) {
  napi_value made = NULL;
  napi_create_int64(env, value, &made);
  return made;
}

/* load(path): undefined, or why not. */
static napi_value load(napi_env env, napi_callback_info info) {
  napi_value path_value, why = NULL;
  if (!arguments_of(env, info, 1, &path_value)) return NULL;
  size_t size;
  char* path = text_of(env, path_value, &size);
  if (!path) return NULL;
  pthread_mutex_lock(&loading);
  if (!loaded) {
    void* found = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char* missing = found ? find_functions(found) : NULL;
    loaded = found && !missing;
    if (!loaded) {
      char text[512];
      snprintf(text, sizeof text, "%s%s", found ? "it has no " : "", found ? missing : dlerror());
      napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &why);
      if (found) dlclose(found);
    }
  }
  pthread_mutex_unlock(&loading);
  free(path);
  return why;
}

/* A native handle with these options (key, value, key, ...); NULL: an exception was thrown. */
static pgwake_handle* open_native(napi_env env, napi_value given, bool ignore_environment) {
  size_t count;
  const char** table = strings_of(env, given, &count);
  if (!table) return NULL;
  pgwake_handle* native = NULL;
  pgwake_options* options = library.options_new();
  int result = options ? PGWAKE_OK : PGWAKE_NOMEM;
  if (options && ignore_environment) result = library.options_ignore_environment(options);
  for (size_t i = 0; result == PGWAKE_OK && i + 1 < count; i += 2)
    result = library.options_set(options, table[i], table[i + 1]);
  if (result == PGWAKE_OK) result = library.open(&native, options);
  if (result != PGWAKE_OK) throw_result(env, result);
  library.options_free(options);
  free(table);
  return native;
}

static bool watch(listener* l) {
  uv_loop_t* loop;
  int fd = library.fd(l->native);
  if (fd < 0 || napi_get_uv_event_loop(l->env, &loop) != napi_ok || uv_poll_init(loop, &l->poll, fd) != 0)
    return false;
  l->poll.data = l;
  uv_poll_start(&l->poll, UV_READABLE, on_readable);
  return true;
}

/* open(options, ignoreEnvironment, callback): a listener. */
static napi_value open_listener(napi_env env, napi_callback_info info) {
  napi_value given[3], object = NULL, name;
  bool ignore_environment = false;
  if (!arguments_of(env, info, 3, given)) return NULL;
  napi_get_value_bool(env, given[1], &ignore_environment);
  listener* l = calloc(1, sizeof *l);
  if (!l) return throw_broken(env, "out of memory");
  l->env = env;
  l->native = open_native(env, given[0], ignore_environment);
  if (!l->native) {
    free(l);
    return NULL;
  }
  if (!watch(l)) {
    library.close(l->native);
    free(l);
    return throw_broken(env, "the event loop does not take its descriptor");
  }
  l->owners = 1;
  /* These fail only where JavaScript cannot run any more. */
  napi_create_string_utf8(env, "pgwake", NAPI_AUTO_LENGTH, &name);
  napi_async_init(env, NULL, name, &l->context);
  napi_create_reference(env, given[2], 1, &l->callback);
  napi_add_async_cleanup_hook(env, on_environment_end, l, &l->hook);
  if (napi_create_external(env, l, on_collected, NULL, &object) == napi_ok) {
    l->owners = 2;
  } else {
    start_closing(l);
  }
  return object;
}

/* close(listener): its callback says when that is done. */
static napi_value close_listener(napi_env env, napi_callback_info info) {
  napi_value given;
  listener* l;
  if (arguments_of(env, info, 1, &given) && (l = listener_of(env, given))) start_closing(l);
  return NULL;
}

/* ref(listener, whether): whether it keeps the process alive. */
static napi_value set_ref(napi_env env, napi_callback_info info) {
  napi_value given[2];
  bool whether = true;
  listener* l;
  if (!arguments_of(env, info, 2, given) || !(l = listener_of(env, given[0]))) return NULL;
  napi_get_value_bool(env, given[1], &whether);
  if (l->closing) return NULL;
  if (whether) {
    uv_ref((uv_handle_t*)&l->poll);
  } else {
    uv_unref((uv_handle_t*)&l->poll);
  }
  return NULL;
}

/* watch(listener, whether): whether the callback says that there is something to read. It keeps the process alive
   in either case, which a handle of libuv's that is stopped would not. */
static napi_value set_watch(napi_env env, napi_callback_info info) {
  napi_value given[2];
  bool whether = true;
  listener* l;
  if (!arguments_of(env, info, 2, given) || !(l = listener_of(env, given[0]))) return NULL;
  napi_get_value_bool(env, given[1], &whether);
  if (!l->closing) uv_poll_start(&l->poll, whether ? UV_READABLE : UV_DISCONNECT, on_readable);
  return NULL;
}

/* subscribe(listener, channels, timeout, id): the answers are events. */
static napi_value subscribe(napi_env env, napi_callback_info info) {
  napi_value given[4];
  listener* l;
  int32_t timeout = 0;
  uint32_t id = 0;
  size_t count;
  if (!arguments_of(env, info, 4, given) || !(l = listener_of(env, given[0]))) return NULL;
  if (l->closing) return throw_result(env, PGWAKE_CLOSED);
  napi_get_value_int32(env, given[2], &timeout);
  napi_get_value_uint32(env, given[3], &id);
  const char** channels = strings_of(env, given[1], &count);
  if (!channels) return NULL;
  int result = library.subscribe_start(l->native, channels, count, timeout, id);
  free(channels);
  return result == PGWAKE_OK ? NULL : throw_result(env, result);
}

/* unsubscribe(listener, channel) */
static napi_value unsubscribe(napi_env env, napi_callback_info info) {
  napi_value given[2];
  listener* l;
  size_t size;
  if (!arguments_of(env, info, 2, given) || !(l = listener_of(env, given[0]))) return NULL;
  if (l->closing) return throw_result(env, PGWAKE_CLOSED);
  char* channel = text_of(env, given[1], &size);
  if (!channel) return NULL;
  int result = library.unsubscribe(l->native, channel);
  free(channel);
  return result == PGWAKE_OK ? NULL : throw_result(env, result);
}

/* read(listener, buffer): how many bytes of records were put there; 0: nothing waits; more than there is room
   for: how many the next event needs. */
static napi_value read_events(napi_env env, napi_callback_info info) {
  napi_value given[2];
  listener* l;
  void* buffer;
  size_t room, used = 0;
  if (!arguments_of(env, info, 2, given) || !(l = listener_of(env, given[0]))) return NULL;
  if (l->closing) return number(env, 0);
  if (napi_get_buffer_info(env, given[1], &buffer, &room) != napi_ok)
    return throw_broken(env, "not a buffer");
  int result = library.read(l->native, buffer, room, &used, 0, 0);
  if (result == PGWAKE_INVALID && used > room) return number(env, (int64_t)used);
  return result < 0 ? throw_result(env, result) : number(env, result == 0 ? 0 : (int64_t)used);
}

/* state(listener): JSON. */
static napi_value get_state(napi_env env, napi_callback_info info) {
  napi_value given, text = NULL;
  listener* l;
  char room[8 * 1024];
  if (!arguments_of(env, info, 1, &given) || !(l = listener_of(env, given))) return NULL;
  int size = l->closing ? PGWAKE_CLOSED : library.state_json(l->native, room, sizeof room);
  if (size < 0) return throw_result(env, size);
  napi_create_string_utf8(env, room, (size_t)size, &text);
  return text;
}

static napi_value name_of_result(napi_env env, napi_callback_info info) {
  napi_value given, text = NULL;
  int32_t result = 0;
  if (!arguments_of(env, info, 1, &given)) return NULL;
  napi_get_value_int32(env, given, &result);
  napi_create_string_utf8(env, library.result_name(result), NAPI_AUTO_LENGTH, &text);
  return text;
}

static napi_value version(napi_env env, napi_callback_info info) {
  (void)info;
  napi_value text = NULL;
  napi_create_string_utf8(env, library.version(), NAPI_AUTO_LENGTH, &text);
  return text;
}

NAPI_MODULE_INIT() {
  static const struct {
    const char* name;
    napi_callback function;
  } table[] = {{"load", load},
               {"open", open_listener},
               {"close", close_listener},
               {"ref", set_ref},
               {"watch", set_watch},
               {"subscribe", subscribe},
               {"unsubscribe", unsubscribe},
               {"read", read_events},
               {"state", get_state},
               {"resultName", name_of_result},
               {"version", version}};
  for (size_t i = 0; i < sizeof table / sizeof *table; ++i) {
    napi_value function;
    if (napi_create_function(env, table[i].name, NAPI_AUTO_LENGTH, table[i].function, NULL, &function) !=
            napi_ok ||
        napi_set_named_property(env, exports, table[i].name, function) != napi_ok)
      return NULL;
  }
  return exports;
}
