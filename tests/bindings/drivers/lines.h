/*
 * The lines that a driver speaks with play-cases (tests/bindings/README.md), for the drivers in C and C++.
 * One thread.
 */
#ifndef PGWAKE_BINDINGS_LINES_H
#define PGWAKE_BINDINGS_LINES_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A request: its words, decoded, each with a NUL byte at its end. Valid until the next one is read. */
typedef struct lines_request {
  size_t count;
  char** words;
} lines_request;

/* Reads the next request; 0 at the end of the input. Ends the process if it is not one. */
int lines_read(lines_request* request);

/* The answer is put together from these and sent by the last. */
void lines_raw(const char* text);                     /* as it is */
void lines_text(const char* bytes, size_t size);      /* a JSON string */
void lines_number(const char* name, long long value); /* ,"name":value */
void lines_named(const char* name, const char* text); /* ,"name":"text" */
void lines_send(void);

/* {"is":true} or {"is":false}. */
void lines_is(int value);

/* Obeys "fork", "exit" and "signals", which are about the process; 0: it was another request. */
int lines_process_request(const lines_request* request);

#ifdef __cplusplus
}
#endif

#endif
