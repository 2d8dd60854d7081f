#include "pgwake/pgwake.h"

// The C ABI's numbers, in words.
extern "C" {

const char* pgwake_strerror(int result) {
  switch (result) {
    case PGWAKE_OK:
      return "success";
    case PGWAKE_TIMEOUT:
      return "the deadline passed";
    case PGWAKE_NACK:
      return "the channel was refused";
    case PGWAKE_FORKED:
      return "the handle belongs to the parent process";
    case PGWAKE_CLOSED:
      return "closed";
    case PGWAKE_NOMEM:
      return "out of memory";
    case PGWAKE_INVALID:
      return "an argument or a setting makes no sense";
    case PGWAKE_SYSTEM:
      return "the system refused a descriptor or a thread";
    default:
      return "an unknown result";
  }
}

const char* pgwake_result_name(int result) {
  switch (result) {
    case PGWAKE_OK:
      return "ok";
    case PGWAKE_TIMEOUT:
      return "timeout";
    case PGWAKE_NACK:
      return "nack";
    case PGWAKE_FORKED:
      return "forked";
    case PGWAKE_CLOSED:
      return "closed";
    case PGWAKE_NOMEM:
      return "nomem";
    case PGWAKE_INVALID:
      return "invalid";
    case PGWAKE_SYSTEM:
      return "system";
    default:
      return "unknown";
  }
}

const char* pgwake_version(void) { return PGWAKE_VERSION; }

const char* pgwake_source_name(int source) {
  return source == PGWAKE_SOURCE_HUB ? "hub" : source == PGWAKE_SOURCE_OWN ? "own" : "none";
}

const char* pgwake_gap_name(int gap) {
  switch (gap) {
    case PGWAKE_GAP_RECONNECT:
      return "reconnect";
    case PGWAKE_GAP_HUB_LOST:
      return "hub_lost";
    case PGWAKE_GAP_OVERFLOW:
      return "overflow";
    case PGWAKE_GAP_FORKED:
      return "forked";
    default:
      return "";
  }
}

}  // extern "C"
