#include "lines.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void give_up(const char* why) {
  fprintf(stderr, "driver: %s\n", why);
  exit(2);
}

static int hex_digit(char c) {
  const char* digits = "0123456789ABCDEF";
  const char* at = c == '\0' ? NULL : strchr(digits, c);
  if (at == NULL) give_up("a percent sign without two digits");
  return (int)(at - digits);
}

/* In place. */
static void decode(char* word) {
  char* out = word;
  for (const char* in = word; *in != '\0'; ++in) {
    char c = *in;
    if (c == '%') {
      c = (char)(hex_digit(in[1]) * 16 + hex_digit(in[2]));
      in += 2;
    }
    *out++ = c;
  }
  *out = '\0';
}

int lines_read(lines_request* request) {
  static char* line = NULL;
  static size_t room = 0;
  static char** words = NULL;
  static size_t words_room = 0;
  if (getline(&line, &room, stdin) <= 0) return 0;
  request->count = 0;
  /* No word holds a quote or a backslash. */
  for (char* at = strchr(line, '"'); at != NULL; at = strchr(at + 1, '"')) {
    char* end = strchr(at + 1, '"');
    if (end == NULL) give_up("a string without an end");
    *end = '\0';
    if (request->count == words_room) {
      words_room = words_room * 2 + 16;
      words = realloc(words, words_room * sizeof *words);
      if (words == NULL) give_up("out of memory");
    }
    decode(at + 1);
    words[request->count++] = at + 1;
    at = end;
  }
  if (request->count == 0) give_up("an empty request");
  request->words = words;
  return 1;
}

void lines_raw(const char* text) { fputs(text, stdout); }

void lines_text(const char* bytes, size_t size) {
  putchar('"');
  for (size_t i = 0; i < size; ++i) {
    const unsigned char c = (unsigned char)bytes[i];
    if (c < ' ' || c > '~' || c == '"' || c == '\\' || c == '%')
      printf("%%%02X", c);
    else
      putchar(c);
  }
  putchar('"');
}

void lines_number(const char* name, long long value) { printf(",\"%s\":%lld", name, value); }

void lines_named(const char* name, const char* text) {
  printf(",\"%s\":", name);
  lines_text(text, strlen(text));
}

void lines_send(void) {
  putchar('\n');
  fflush(stdout);
}

void lines_is(int value) {
  lines_raw(value ? "{\"is\":true}" : "{\"is\":false}");
  lines_send();
}

static void on_signal(int number) {
  static const char line[] = "{\"signal\":true}\n";
  (void)number;
  if (write(STDOUT_FILENO, line, sizeof line - 1) < 0) _exit(3);
}

/* The child serves from here on; the parent does when it has ended. */
static void fork_now(void) {
  const pid_t child = fork();
  if (child < 0) give_up("fork() failed");
  if (child == 0) {
    lines_is(1);
    return;
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) continue;
  lines_raw("{\"is\":\"ended\"");
  lines_number("status", status);
  lines_raw("}");
  lines_send();
}

int lines_process_request(const lines_request* request) {
  if (strcmp(request->words[0], "fork") == 0) {
    fork_now();
  } else if (strcmp(request->words[0], "exit") == 0) {
    _exit(0);
  } else if (strcmp(request->words[0], "signals") == 0) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    sigaction(SIGUSR1, &action, NULL);
    lines_is(1);
  } else {
    return 0;
  }
  return 1;
}
