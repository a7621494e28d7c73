/* What a C99 program needs of the install tree: ranks as threads, one broadcast, the errors, the
 * report, and the functions on files. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <sparcl/file.h>
#include <sparcl/sparcl.h>
#include <stdio.h>
#include <string.h>

enum { kRanks = 3, kCount = 100000 };

#define CHECK(call)                                                         \
  do {                                                                      \
    sparclResult_t result = (call);                                         \
    if (result != sparclSuccess) {                                          \
      fprintf(stderr, "%s: %s (%s)\n", #call, sparclGetErrorString(result), \
              sparclGetLastError(comm));                                    \
      return (void*)1;                                                      \
    }                                                                       \
  } while (0)

static float weights[kRanks][kCount];
static float base[kCount];

static void* run_rank(void* argument) {
  sparclComm_t comm = argument;
  sparclReport_t report = SPARCL_REPORT_INITIALIZER;
  int rank = -1, count = 0;
  CHECK(sparclCommUserRank(comm, &rank));
  CHECK(sparclCommCount(comm, &count));
  if (count != kRanks) return (void*)1;
  CHECK(sparclBroadcastDelta(weights[rank], rank == 1 ? base : NULL, kCount, sparclFloat32, 1, NULL,
                             comm, NULL));
  CHECK(sparclCommLastReport(comm, &report));
  if (rank == 0)
    printf("%llu changed, %llu bytes received\n", (unsigned long long)report.nnz_out,
           (unsigned long long)report.bytes_received);
  if (report.applied != 1 || report.nnz_out != kCount / 100) return (void*)1;
  CHECK(sparclCommDestroy(comm));
  return NULL;
}

static int names_a_missing_file(void) {
  sparclFileReport_t report = SPARCL_FILE_REPORT_INITIALIZER;
  return sparclFileVerify("no_such_file", NULL, &report) == sparclSystemError &&
         strstr(sparclGetLastError(NULL), "no_such_file") != NULL;
}

int main(void) {
  sparclComm_t comms[kRanks];
  pthread_t threads[kRanks];
  int version = 0, failed = 0, i, r;
  if (sparclGetVersion(&version) != sparclSuccess || version != SPARCL_EXPECTED_VERSION) {
    fprintf(stderr, "version %d, but the package says %d\n", version, SPARCL_EXPECTED_VERSION);
    return 1;
  }
  if (!names_a_missing_file()) {
    fprintf(stderr, "sparclFileVerify of a missing file: %s\n", sparclGetLastError(NULL));
    return 1;
  }
  for (i = 0; i < kCount; ++i) {
    base[i] = (float)i;
    for (r = 0; r < kRanks; ++r) weights[r][i] = (float)i;
    if (i % 100 == 0) weights[1][i] += 0.5f;
  }
  if (sparclCommInitLocal(comms, kRanks) != sparclSuccess) {
    fprintf(stderr, "sparclCommInitLocal: %s\n", sparclGetLastError(NULL));
    return 1;
  }
  for (r = 0; r < kRanks; ++r) pthread_create(&threads[r], NULL, run_rank, comms[r]);
  for (r = 0; r < kRanks; ++r) {
    void* result = NULL;
    pthread_join(threads[r], &result);
    failed |= result != NULL || memcmp(weights[r], weights[1], sizeof weights[r]) != 0;
  }
  printf("%s\n", failed ? "ranks differ" : "all ranks hold the root's weights");
  return failed;
}
