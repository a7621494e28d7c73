/* Loads a library by dlopen() as a runtime does, after it has set its own handlers: hygiene_loader LIBRARY. Exits with 0 if that
   changed nothing; else standard error says what it changed. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "tests/hygiene/process_state.h"

static void of_the_runtime(int number) { (void)number; }

int main(int argc, char** argv) {
  ProcessState before, after;
  (void)argc;
  signal(SIGSEGV, of_the_runtime);
  signal(SIGFPE, of_the_runtime);
  setlocale(LC_ALL, "C.UTF-8");
  before = take_state();
  if (dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) == NULL) return fprintf(stderr, "%s\n", dlerror());
  after = take_state();
  return compare_states("dlopen", &before, &after, 1) != 0;
}
