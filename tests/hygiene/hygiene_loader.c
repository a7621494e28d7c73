/* Loads a library by dlopen() as a runtime does, after it has set its own handlers: hygiene_loader
   LIBRARY. Exits with 0 if that changed nothing; else standard error says what it changed. Then
   closes it while a thread lives that has called it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/hygiene/process_state.h"

static void of_the_runtime(int number) { (void)number; }

static pthread_barrier_t has_called, is_closed;

static void* call_that_fails(void* library) {
  int (*get_version)(int*);
  *(void**)&get_version = dlsym(library, "sparclGetVersion");
  if (get_version == NULL || get_version(NULL) == 0) exit(2);
  pthread_barrier_wait(&has_called);
  pthread_barrier_wait(&is_closed);
  return NULL; /* its last error goes */
}

static void close_under_a_thread(void* library) {
  pthread_t caller;
  pthread_barrier_init(&has_called, NULL, 2);
  pthread_barrier_init(&is_closed, NULL, 2);
  if (pthread_create(&caller, NULL, call_that_fails, library) != 0) exit(3);
  pthread_barrier_wait(&has_called);
  dlclose(library);
  pthread_barrier_wait(&is_closed);
  pthread_join(caller, NULL);
}

int main(int argc, char** argv) {
  ProcessState before, after;
  void* library;
  (void)argc;
  signal(SIGSEGV, of_the_runtime);
  signal(SIGFPE, of_the_runtime);
  setlocale(LC_ALL, "C.UTF-8");
  before = take_state();
  library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
  if (library == NULL) return fprintf(stderr, "%s\n", dlerror());
  after = take_state();
  if (compare_states("dlopen", &before, &after, 1) != 0) return 1;
  close_under_a_thread(library);
  return 0;
}
