/* Links libsparcl. What its loading did shows in main(): hygiene_linked (load | loopback | ucx |
   processes | own-handler | hang-up | leave-record | comma-locale). Ranks are threads, or two
   processes over UCX. Exits with 0 if nothing was disturbed; else standard error says what was.
   hang-up: SIGHUP ends it. leave-record: it ends with a communicator, and leaves its flight record.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sparcl/sparcl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/hygiene/process_state.h"

enum { kRanks = 2, kCount = 1000 };

typedef struct {
  int rank;
  int uses_ucx;
  sparclUniqueId id;
  sparclComm_t comm;
  int failed;
} Rank;

static pthread_barrier_t
    both_are_there; /* a rank without threads left must not take them from the other */

static void* run_rank(void* argument) {
  Rank* rank = argument;
  float weights[kCount] = {0}, base[kCount] = {0};
  if (rank->rank == 0) weights[7] = 1;
  rank->failed = 1;
  (void)pthread_barrier_wait(&both_are_there);
  if (rank->uses_ucx &&
      sparclCommInitRank(&rank->comm, kRanks, rank->id, rank->rank, NULL) != sparclSuccess) {
    fprintf(stderr, "%s\n", sparclGetLastError(NULL));
    return NULL;
  }
  if (sparclBroadcastDelta(weights, base, kCount, sparclFloat32, 0, NULL, rank->comm, NULL) ==
      sparclSuccess)
    rank->failed = weights[7] != 1;
  if (sparclCommDestroy(rank->comm) != sparclSuccess) rank->failed = 1;
  return NULL;
}

static int run_communicator(int uses_ucx) {
  Rank ranks[kRanks];
  sparclComm_t comms[kRanks] = {NULL, NULL};
  sparclUniqueId id;
  pthread_t threads[kRanks];
  int i, failed = 0;
  memset(&id, 0, sizeof id);
  if (uses_ucx ? sparclGetUniqueId(&id) : sparclCommInitLocal(comms, kRanks))
    return fprintf(stderr, "%s\n", sparclGetLastError(NULL));
  if (pthread_barrier_init(&both_are_there, NULL, kRanks) != 0) return 1;
  for (i = 0; i < kRanks; ++i) {
    ranks[i] = (Rank){i, uses_ucx, id, comms[i], 0};
    if (pthread_create(&threads[i], NULL, run_rank, &ranks[i]) != 0) return 1;
  }
  for (i = 0; i < kRanks; ++i) {
    pthread_join(threads[i], NULL);
    failed |= ranks[i].failed;
  }
  if (failed) fprintf(stderr, "the communicator failed: %s\n", sparclGetLastError(NULL));
  return failed;
}

static int run_processes(void) {
  Rank rank = {0, 1, {{0}}, NULL, 0};
  int ends[2], status = 0;
  pid_t child;
  if (pthread_barrier_init(&both_are_there, NULL, 1) != 0 || pipe(ends) != 0 ||
      (child = fork()) < 0)
    return 1;
  rank.rank = child == 0;
  if (child == 0 && read(ends[0], &rank.id, sizeof rank.id) != (ssize_t)sizeof rank.id) return 1;
  if (child != 0 && (sparclGetUniqueId(&rank.id) != sparclSuccess ||
                     write(ends[1], &rank.id, sizeof rank.id) < 0))
    return 1;
  (void)run_rank(&rank);
  return (child != 0 && (waitpid(child, &status, 0) != child || status != 0)) || rank.failed;
}

/* The environment as execve() gave it, one variable after another. */
static int environment_differs(void) {
  static char first[1 << 20];
  FILE* file = fopen("/proc/self/environ", "r");
  size_t size = file == NULL ? 0 : fread(first, 1, sizeof first - 1, file), at = 0;
  char** variable;
  if (file == NULL) return differs("load", "/proc/self/environ cannot be read: the environment");
  fclose(file);
  for (variable = environ; *variable != NULL; at += strlen(first + at) + 1, ++variable) {
    if (at >= size || strcmp(first + at, *variable) != 0) return differs("load", *variable);
  }
  return at < size ? differs("load", "the number of environment variables") : 0;
}

static int loaded_state_differs(const ProcessState* state) {
  int changes = environment_differs(), i;
  for (i = 1; i < kSignals; ++i) {
    if (state->actions[i].sa_handler == SIG_DFL || state->actions[i].sa_handler == SIG_IGN)
      continue;
    fprintf(stderr, "load: signal %d has a handler\n", i);
    ++changes;
  }
  if (state->threads != 1) changes += differs("load", "the number of threads");
  if (strcmp(state->locale, "C") != 0) changes += differs("load", "the locale");
  return changes;
}

static void own_handler(int number) { _exit(number == SIGSEGV ? 0 : 1); }

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "load";
  ProcessState before = take_state(), after;
  int changes = loaded_state_differs(&before), version = 0;
  if (strcmp(mode, "own-handler") == 0) {
    signal(SIGSEGV, own_handler);
    signal(SIGHUP, SIG_IGN);
    before = take_state();
  }
  if (strcmp(mode, "comma-locale") == 0) {
    setlocale(LC_ALL, "");
    if (strcmp(localeconv()->decimal_point, ",") != 0)
      return fprintf(stderr, "this locale has no decimal comma\n");
    before = take_state();
    mode = "loopback";
  }
  if (sparclGetVersion(&version) != sparclSuccess)
    return 1; /* so that the library is linked indeed */
  if (strcmp(mode, "leave-record") == 0) {
    sparclComm_t comms[kRanks];
    if (sparclCommInitLocal(comms, kRanks) != sparclSuccess) return 1;
    raise(SIGKILL);
  }
  if (strcmp(mode, "processes") == 0) return run_processes();
  if (strcmp(mode, "load") != 0 && run_communicator(strcmp(mode, "loopback") != 0)) return 1;
  after = take_state();
  changes += compare_states(mode, &before, &after, strcmp(mode, "load") == 0);
  if (strcmp(mode, "hang-up") == 0) raise(SIGHUP);
  if (strcmp(mode, "own-handler") == 0 && changes == 0) raise(SIGSEGV);
  return changes != 0;
}
