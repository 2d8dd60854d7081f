// Preloaded: while the file $SLOW_NAMES exists, the name service does not answer.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

static void wait_for_names(void) {
  const char* flag = getenv("SLOW_NAMES");
  while (flag != NULL && access(flag, F_OK) == 0) usleep(10000);
}

int getpwnam_r(const char* name, struct passwd* entry, char* buffer, size_t size, struct passwd** found) {
  static int (*real)(const char*, struct passwd*, char*, size_t, struct passwd**);
  *(void**)&real = dlsym(RTLD_NEXT, "getpwnam_r");
  wait_for_names();
  return real(name, entry, buffer, size, found);
}

struct passwd* getpwnam(const char* name) {
  static struct passwd* (*real)(const char*);
  *(void**)&real = dlsym(RTLD_NEXT, "getpwnam");
  wait_for_names();
  return real(name);
}
