/* unload LIBRARY: loads it, uses it, unloads it, many times; then neither its code nor a descriptor, a thread
 * or a fork handler of it is left. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pgwake/pgwake.h"

static int entries(const char* path) {
  DIR* directory = opendir(path);
  int count = 0;
  while (directory != NULL && readdir(directory) != NULL) ++count;
  if (directory != NULL) closedir(directory);
  return count;
}

static int mapped(void) {
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[4096];
  int found = 0;
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) found |= strstr(line, "libpgwake") != NULL;
  if (maps != NULL) fclose(maps);
  return found;
}

static void* symbol(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (found == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  return found;
}

static void use(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  int (*open_handle)(pgwake_handle**, const pgwake_options*);
  int (*subscribe)(pgwake_handle*, const char*, int);
  void (*close_handle)(pgwake_handle*);
  *(void**)&open_handle = symbol(library, "pgwake_open");
  *(void**)&subscribe = symbol(library, "pgwake_subscribe");
  *(void**)&close_handle = symbol(library, "pgwake_close");
  pgwake_handle* handle = NULL;
  if (open_handle(&handle, NULL) != PGWAKE_OK || subscribe(handle, "c", 1000) != PGWAKE_OK) {
    fprintf(stderr, "the library does not work\n");
    exit(1);
  }
  close_handle(handle);
  dlclose(library);
}

/* A host that unloads the library with a live handle, as a plug-in of a thread that ends. The thread that
 * stays must find its code. */
static int abandon(const char* path) {
  const pid_t child = fork();
  if (child == 0) {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    int (*open_handle)(pgwake_handle**, const pgwake_options*);
    *(void**)&open_handle = symbol(library, "pgwake_open");
    pgwake_handle* handle = NULL;
    if (open_handle(&handle, NULL) != PGWAKE_OK) exit(1);
    dlclose(library);
    if (!mapped()) exit(1);
    usleep(50000);
    exit(0);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && status == 0;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  setenv("PGWAKE_SOCKET", "/nonexistent/pgwake.sock", 1);
  setenv("PGWAKE_POLICY", "none", 1);
  use(argv[1]); /* what the C library keeps for itself exists from here on */
  const int descriptors = entries("/proc/self/fd");
  const int threads = entries("/proc/self/task");
  for (int i = 0; i < 50; ++i) use(argv[1]);
  for (int i = 0; i < 10; ++i) {
    if (abandon(argv[1])) continue;
    fprintf(stderr, "unloading with a live handle is not survived\n");
    return 1;
  }
  if (mapped()) {
    fprintf(stderr, "the library is still mapped\n");
    return 1;
  }
  if (entries("/proc/self/fd") != descriptors || entries("/proc/self/task") != threads) {
    fprintf(stderr, "descriptors or threads were left behind\n");
    return 1;
  }
  const pid_t child = fork(); /* a fork handler in unmapped code would crash here */
  if (child == 0) _exit(0);
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) return 1;
  puts("unloaded");
  return 0;
}
