/* A worker or an aggregator as a process of its own, by the C interface alone.
 *   elastic_program root FOLDER ADDRESS
 *   elastic_program branch PARENT ADDRESS
 *   elastic_program worker ADDRESSES NUMBER ROUNDS
 * A worker adds 1 to an element of its own in each round: the model then says how often each
 * contribution counted. The model has kPlaces elements a worker. */
#include <sparcl/sparcl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kWorkers = 8, kPlaces = 40000 };
static float weights[kWorkers * kPlaces];

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, sparclGetLastError(NULL));
  return 1;
}

static int make_state(sparclState_t* state) {
  const uint64_t shape = (uint64_t)kWorkers * kPlaces;
  if (sparclStateCreate(state) != sparclSuccess) return fail("state");
  if (sparclStateAdd(*state, "w", weights, sparclFloat32, 1, &shape) != sparclSuccess)
    return fail("tensor");
  return 0;
}

static int run_aggregator(const char* folder, const char* parent, const char* address) {
  sparclState_t state = NULL;
  sparclAggregator_t aggregator = NULL;
  sparclAggregatorOptions_t how = SPARCL_AGGREGATOR_OPTIONS_INITIALIZER;
  sparclServeOptions_t serve = SPARCL_SERVE_OPTIONS_INITIALIZER;
  char at[128];
  how.mean = sparclMeanNone;
  serve.folder = folder;
  serve.parent = parent;
  serve.listen = address;
  serve.round = sparclRoundQuorum; /* late contributions, too */
  serve.quorum = 1;
  serve.grace_max_s = 0.1;
  serve.deadline_s = 1;
  if (make_state(&state) != 0) return 1;
  if (sparclAggregatorCreate(&aggregator, (size_t)kWorkers * kPlaces, &how) != sparclSuccess)
    return fail("aggregator");
  if (sparclAggregatorServe(aggregator, state, &serve) != sparclSuccess) return fail("serve");
  if (sparclAggregatorAddress(aggregator, at, NULL, sizeof at) != sparclSuccess)
    return fail("address");
  printf("serves %s\n", at);
  fflush(stdout);
  for (;;) {
    sparclRoundReport_t report = SPARCL_ROUND_REPORT_INITIALIZER;
    const sparclResult_t result = sparclAggregatorNext(aggregator, 0.5, &report);
    if (result == sparclTimeout) continue;
    if (result != sparclSuccess) return fail("round");
    printf("round %llu %llu %llu\n", (unsigned long long)report.version,
           (unsigned long long)report.listed, (unsigned long long)report.late);
    fflush(stdout);
  }
}

/* Its own contributions that counted, in a version of the model; -1: some contribution counted
 * twice. */
static int judge(int number) {
  int i, counted = 0;
  for (i = 0; i < kWorkers * kPlaces; ++i) {
    if (weights[i] != 0 && weights[i] != 1) {
      fprintf(stderr, "element %d counted %g times\n", i, weights[i]);
      return -1;
    }
    counted += weights[i] == 1 && i / kPlaces == number;
  }
  return counted;
}

static int run_worker(const char* address, int number, int rounds) {
  sparclState_t state = NULL;
  sparclWorker_t worker = NULL;
  sparclWorkerStats_t stats = SPARCL_WORKER_STATS_INITIALIZER;
  uint64_t version = 0;
  int round, tries, counted = 0;
  const int first = (int)(getpid() % 97) * 200; /* another one in each life */
  if (make_state(&state) != 0) return 1;
  if (sparclWorkerCreate(&worker, state, address, NULL) != sparclSuccess) return fail("worker");
  for (round = 0; round < rounds; ++round) {
    if (sparclWorkerNext(worker, 60, &version) != sparclSuccess) return fail("next");
    weights[number * kPlaces + first + round] += 1;
    if (sparclWorkerContribute(worker, 1) != sparclSuccess) return fail("contribute");
    printf("gave %d\n", round);
    fflush(stdout);
  }
  do { /* what was refused or deferred goes along with a contribution of its own */
    if (sparclWorkerFlush(worker, 60) != sparclSuccess) return fail("flush");
    if (sparclWorkerStats(worker, &stats) != sparclSuccess) return fail("stats");
    if (stats.residual_l2 == 0) break;
    if (sparclWorkerNext(worker, 60, &version) != sparclSuccess) return fail("next");
    if (sparclWorkerContribute(worker, 1) != sparclSuccess) return fail("contribute");
  } while (1);
  /* Up to the version with the last of them. */
  for (tries = 0; counted >= 0 && counted < rounds && tries < 100; ++tries) {
    if (sparclWorkerNext(worker, 1, &version) == sparclSuccess) counted = judge(number);
  }
  if (sparclWorkerStats(worker, &stats) != sparclSuccess) return fail("stats");
  printf("committed %llu refused %llu counted %d at %llu\n", (unsigned long long)stats.committed,
         (unsigned long long)stats.refused, counted, (unsigned long long)version);
  if (counted < 0) return 1;
  if (sparclWorkerDestroy(worker) != sparclSuccess) return fail("destroy");
  return sparclStateDestroy(state) == sparclSuccess ? 0 : fail("state");
}

int main(int argc, char** argv) {
  if (argc == 4 && strcmp(argv[1], "root") == 0) return run_aggregator(argv[2], NULL, argv[3]);
  if (argc == 4 && strcmp(argv[1], "branch") == 0) return run_aggregator(NULL, argv[2], argv[3]);
  if (argc == 5 && strcmp(argv[1], "worker") == 0)
    return run_worker(argv[2], atoi(argv[3]), atoi(argv[4]));
  fprintf(stderr,
          "usage: elastic_program root FOLDER ADDRESS | branch PARENT ADDRESS |\n"
          "       elastic_program worker ADDRESSES NUMBER ROUNDS\n");
  return 2;
}
