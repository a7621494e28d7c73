/* What a library may disturb in its process: taken before and after, and compared. */
#ifndef SPARCL_TESTS_PROCESS_STATE_H
#define SPARCL_TESTS_PROCESS_STATE_H
#include <dirent.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char** environ;

enum { kMaxVariables = 1000, kSignals = 65 };

typedef struct {
  struct sigaction actions[kSignals];
  sigset_t mask;
  stack_t stack;
  char* variables[kMaxVariables];
  int variable_count;
  int threads;
  int descriptors;
  char locale[200];
  int has_point_of_c; /* the decimal point */
} ProcessState;

static int count_entries(const char* folder) {
  int count = 0;
  struct dirent* entry;
  DIR* entries = opendir(folder);
  if (entries == NULL) return -1;
  while ((entry = readdir(entries)) != NULL) count += entry->d_name[0] != '.';
  closedir(entries);
  return count;
}

static ProcessState take_state(void) {
  static ProcessState state;
  char** variable;
  int i;
  memset(&state, 0, sizeof state);
  for (i = 1; i < kSignals; ++i) (void)sigaction(i, NULL, &state.actions[i]);
  (void)sigprocmask(SIG_BLOCK, NULL, &state.mask);
  (void)sigaltstack(NULL, &state.stack);
  for (variable = environ; *variable != NULL && state.variable_count < kMaxVariables; ++variable)
    state.variables[state.variable_count++] = strdup(*variable);
  state.threads = count_entries("/proc/self/task");
  state.descriptors = count_entries("/proc/self/fd");
  (void)snprintf(state.locale, sizeof state.locale, "%s", setlocale(LC_ALL, NULL));
  state.has_point_of_c = strcmp(localeconv()->decimal_point, ".") == 0;
  return state;
}

static int differs(const char* when, const char* what) {
  fprintf(stderr, "%s: %s changed\n", when, what);
  return 1;
}

/* How many things changed. Signals, the environment and the locale; `all`: threads and descriptors,
 * too. */
static int compare_states(const char* when, const ProcessState* a, const ProcessState* b, int all) {
  int changes = 0, i;
  char text[60];
  for (i = 1; i < kSignals; ++i) {
    (void)snprintf(text, sizeof text, "the disposition of signal %d", i);
    if (a->actions[i].sa_handler != b->actions[i].sa_handler ||
        a->actions[i].sa_flags != b->actions[i].sa_flags)
      changes += differs(when, text);
    if (sigismember(&a->mask, i) != sigismember(&b->mask, i))
      changes += differs(when, "the signal mask");
  }
  if (a->stack.ss_sp != b->stack.ss_sp || a->stack.ss_flags != b->stack.ss_flags)
    changes += differs(when, "the signal stack");
  if (a->variable_count != b->variable_count)
    changes += differs(when, "the number of environment variables");
  for (i = 0; i < a->variable_count && i < b->variable_count; ++i) {
    if (strcmp(a->variables[i], b->variables[i]) != 0) changes += differs(when, b->variables[i]);
  }
  if (strcmp(a->locale, b->locale) != 0 || a->has_point_of_c != b->has_point_of_c)
    changes += differs(when, "the locale");
  if (all && a->threads != b->threads) changes += differs(when, "the number of threads");
  if (all && a->descriptors != b->descriptors)
    changes += differs(when, "the number of descriptors");
  return changes;
}

#endif
