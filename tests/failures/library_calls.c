// Three ranks that are threads make calls of the library, and look at what comes of them. Run with
// failing_calls.c preloaded.
//
//   library_calls collectives|requests|handles|meeting [FILE]
//
// Exit code 0: all calls succeeded. 1: some failed, and each said why on standard error. 8: an
// error without a text. 9: a result that is wrong, or partially written.
#include <pthread.h>
#include <sparcl/sparcl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, COUNT = 3000, K = 30 };

static volatile int worst;  // exit code
static sparclComm_t comms[RANKS];
static float base[COUNT], changed[COUNT];

static void found(int code) {
  if (code > worst) worst = code;
}

static void wrong(int rank, const char* what) {
  fprintf(stderr, "rank %d: %s\n", rank, what);
  found(9);
}

static int ok(sparclResult_t result, sparclComm_t comm, const char* call) {
  if (result == sparclSuccess) return 1;
  const char* const text = sparclGetLastError(comm);
  const int is_said = text != NULL && *text != '\0';
  fprintf(stderr, "%s: %s: %s\n", call, sparclGetErrorString(result), is_said ? text : "(no text)");
  found(is_said ? 1 : 8);
  return 0;
}

// What a rank works on.
typedef struct {
  int rank;
  sparclComm_t comm;
  float weights[COUNT], tensor[COUNT], gradient[COUNT], sum[COUNT], entries[COUNT];
  uint64_t indices[COUNT];
  size_t nnz;
  sparclState_t state;
  sparclMask_t mask;
  sparclFeedback_t feedback;
} Rank;

static int is_all(const float* array, const float* expected) {
  return memcmp(array, expected, COUNT * sizeof(float)) == 0;
}

// Old or new as a whole, and new after a success.
static void check_broadcast(const Rank* own, const float* array, int succeeded, const char* call) {
  if (succeeded ? !is_all(array, changed) : !is_all(array, changed) && !is_all(array, base))
    wrong(own->rank, call);
}

static void check_sum(const Rank* own, int succeeded, size_t least, const char* call) {
  size_t summed = 0;
  for (size_t i = 0; succeeded && i < COUNT; ++i) {
    summed += own->sum[i] == 6;
    if (own->sum[i] != 6 && own->sum[i] != 0) summed = 0, succeeded = 0, wrong(own->rank, call);
  }
  if (succeeded && summed < least) wrong(own->rank, call);
}

static void prepare(Rank* own, int rank, sparclComm_t comm) {
  own->rank = rank;
  own->comm = comm;
  own->nnz = K;
  for (size_t i = 0; i < COUNT; ++i) {
    own->weights[i] = own->tensor[i] = (rank == 0 ? changed : base)[i];
    own->gradient[i] = (float)(rank + 1);
    own->sum[i] = 0;
    own->indices[i] = 7 * i;
    own->entries[i] = (float)i;
  }
  const uint64_t shape[1] = {COUNT};
  if (!ok(sparclStateCreate(&own->state), NULL, "StateCreate") ||
      !ok(sparclStateAdd(own->state, "w", own->tensor, sparclFloat32, 1, shape), NULL,
          "StateAdd")) {
    sparclStateDestroy(own->state);
    own->state = NULL;
  }
  if (!ok(sparclMaskCreateRandom(&own->mask, COUNT, 0.1, 3), NULL, "MaskCreate")) own->mask = NULL;
  if (!ok(sparclFeedbackCreate(&own->feedback, COUNT, sparclFloat32), NULL, "FeedbackCreate"))
    own->feedback = NULL;
}

static void release(Rank* own) {
  ok(sparclCommDestroy(own->comm), NULL, "CommDestroy");
  if (own->feedback != NULL) ok(sparclFeedbackDestroy(own->feedback), NULL, "FeedbackDestroy");
  if (own->mask != NULL) ok(sparclMaskDestroy(own->mask), NULL, "MaskDestroy");
  if (own->state != NULL) ok(sparclStateDestroy(own->state), NULL, "StateDestroy");
  free(own);
}

// A rank that cannot take part says so, and the others get its refusal.
static sparclResult_t refuse(Rank* own) {
  return sparclCommRefuse(own->comm, "a handle could not be made");
}

static void make_blocking_calls(Rank* own) {
  sparclComm_t comm = own->comm;
  const float* const known = own->rank == 0 ? base : NULL;
  check_broadcast(
      own, own->weights,
      ok(sparclBroadcastDelta(own->weights, known, COUNT, sparclFloat32, 0, NULL, comm, NULL), comm,
         "BroadcastDelta"),
      "a broadcast of a delta is not whole");
  const int updated = ok(
      own->state == NULL ? refuse(own) : sparclBroadcastUpdate(own->state, 1, 0, NULL, comm, NULL),
      comm, "BroadcastUpdate");
  check_broadcast(own, own->tensor, updated, "a broadcast of an update is not whole");
  if (ok(sparclBroadcastSparse(own->entries, own->indices, &own->nnz, COUNT, sparclFloat32, 0, NULL,
                               comm, NULL),
         comm, "BroadcastSparse")) {
    if (own->nnz != K || own->indices[K - 1] != 7 * (K - 1) || own->entries[K - 1] != K - 1)
      wrong(own->rank, "sparse entries");
  }
  const int masked =
      ok(own->mask == NULL ? refuse(own)
                           : sparclAllReduceMasked(own->gradient, own->sum, COUNT, sparclFloat32,
                                                   sparclSum, own->mask, NULL, NULL, comm, NULL),
         comm, "AllReduceMasked");
  check_sum(own, masked, COUNT / 10, "a masked sum is wrong");
  memset(own->sum, 0, sizeof own->sum);
  const int selected = ok(
      own->feedback == NULL ? refuse(own)
                            : sparclAllReduceTopK(own->gradient, own->sum, COUNT, K, sparclFloat32,
                                                  sparclSum, own->feedback, NULL, comm, NULL),
      comm, "AllReduceTopK");
  check_sum(own, selected, K, "a sum of the largest is wrong");
  size_t union_nnz = 0;
  static float union_values[RANKS][COUNT];
  static uint64_t union_indices[RANKS][COUNT];
  const uint64_t index = 5;
  if (ok(sparclAllReduceSparse(own->gradient, &index, 1, COUNT, union_values[own->rank],
                               union_indices[own->rank], &union_nnz, COUNT, sparclFloat32,
                               sparclSum, NULL, comm, NULL),
         comm, "AllReduceSparse") &&
      (union_nnz != 1 || union_values[own->rank][0] != 6))
    wrong(own->rank, "a sparse sum is wrong");
}

static void wait_for(Rank* own, sparclRequest_t* request, sparclResult_t started, const char* call,
                     int* succeeded) {
  *succeeded = 0;
  if (!ok(started, own->comm, call)) return;
  int done = 0;
  for (int turn = 0; turn < 50 && !done; ++turn) {
    const sparclResult_t result = sparclTest(request, &done, NULL);
    if (done) *succeeded = ok(result, own->comm, call);
    if (!done && !ok(result, own->comm, "Test")) return;
  }
  if (!done) *succeeded = ok(sparclWait(request, NULL), own->comm, call);
}

static void make_requests(Rank* own) {
  sparclComm_t comm = own->comm;
  sparclRequest_t delta = NULL, masked = NULL, top_k = NULL;
  int succeeded = 0;
  const sparclResult_t began_delta =
      sparclIBroadcastDelta(own->weights, own->rank == 0 ? base : NULL, COUNT, sparclFloat32, 0,
                            NULL, comm, NULL, &delta);
  const sparclResult_t began_masked =
      own->mask == NULL
          ? refuse(own)
          : sparclIAllReduceMasked(own->gradient, own->sum, COUNT, sparclFloat32, sparclSum,
                                   own->mask, NULL, NULL, comm, NULL, &masked);
  wait_for(own, &masked, began_masked, "IAllReduceMasked", &succeeded);
  check_sum(own, succeeded, COUNT / 10, "a masked sum is wrong");
  wait_for(own, &delta, began_delta, "IBroadcastDelta", &succeeded);
  check_broadcast(own, own->weights, succeeded, "a broadcast of a delta is not whole");
  memset(own->sum, 0, sizeof own->sum);
  const sparclResult_t began_top_k =
      own->feedback == NULL
          ? refuse(own)
          : sparclIAllReduceTopK(own->gradient, own->sum, COUNT, K, sparclFloat32, sparclSum,
                                 own->feedback, NULL, comm, NULL, &top_k);
  wait_for(own, &top_k, began_top_k, "IAllReduceTopK", &succeeded);
  check_sum(own, succeeded, K, "a sum of the largest is wrong");
}

static void (*calls)(Rank*) = make_blocking_calls;

static void* run(void* argument) {
  const int rank = (int)(intptr_t)argument;
  Rank* const own = calloc(1, sizeof *own);
  if (own == NULL) {
    fprintf(stderr, "rank %d: no memory to begin with\n", rank);
    found(1);
    sparclCommDestroy(comms[rank]);
    return NULL;
  }
  prepare(own, rank, comms[rank]);
  calls(own);
  release(own);
  return NULL;
}

static sparclUniqueId id;

static void* meet(void* argument) {
  const int rank = (int)(intptr_t)argument;
  sparclConfig_t config = SPARCL_CONFIG_INITIALIZER;
  config.timeout_s = 5;
  if (!ok(sparclCommInitRank(&comms[rank], RANKS, id, rank, &config), NULL, "CommInitRank"))
    return NULL;
  return run(argument);
}

static void run_ranks(void* (*body)(void*)) {
  pthread_t threads[RANKS];
  int started = 0;
  for (; started < RANKS; ++started) {
    if (pthread_create(&threads[started], NULL, body, (void*)(intptr_t)started) == 0) continue;
    fprintf(stderr, "no thread for rank %d\n", started);
    found(1);
    break;
  }
  for (int rank = started; rank < RANKS; ++rank) {
    if (comms[rank] != NULL) sparclCommDestroy(comms[rank]);
  }
  for (int rank = 0; rank < started; ++rank) pthread_join(threads[rank], NULL);
}

static void use_handles(const char* path) {
  sparclFeedback_t made = NULL, loaded = NULL;
  sparclMask_t mask = NULL;
  const uint64_t indices[3] = {1, 5, 9};
  uint64_t held[COUNT];
  size_t nnz = 0;
  if (ok(sparclFeedbackCreate(&made, COUNT, sparclFloat32), NULL, "FeedbackCreate")) {
    sparclFeedbackStats_t stats = SPARCL_FEEDBACK_STATS_INITIALIZER;
    ok(sparclFeedbackStats(made, &stats), NULL, "FeedbackStats");
    if (ok(sparclFeedbackSave(made, path), NULL, "FeedbackSave") &&
        ok(sparclFeedbackLoad(&loaded, path), NULL, "FeedbackLoad"))
      sparclFeedbackDestroy(loaded);
    sparclFeedbackDestroy(made);
  }
  if (ok(sparclMaskCreateIndices(&mask, indices, 3, COUNT), NULL, "MaskCreateIndices"))
    sparclMaskDestroy(mask);
  if (ok(sparclMaskCreateBlocks(&mask, COUNT, 16, 0.3, 7), NULL, "MaskCreateBlocks")) {
    ok(sparclMaskSetStep(mask, 3), NULL, "MaskSetStep");
    if (ok(sparclMaskGetIndices(mask, held, COUNT, &nnz), NULL, "MaskGetIndices") && nnz == 0)
      wrong(0, "an empty mask");
    sparclMaskDestroy(mask);
  }
  sparclState_t state = NULL;
  const uint64_t shape[2] = {30, 100};
  uint8_t hash[16];
  if (!ok(sparclStateCreate(&state), NULL, "StateCreate")) return;
  if (ok(sparclStateAdd(state, "w", base, sparclFloat32, 2, shape), NULL, "StateAdd")) {
    ok(sparclStateMarkIndices(state, "w", indices, 3), NULL, "StateMarkIndices");
    ok(sparclStateHash(state, hash), NULL, "StateHash");
  }
  ok(sparclStateDestroy(state), NULL, "StateDestroy");
}

int main(int argc, char** argv) {
  const char* const what = argc > 1 ? argv[1] : "";
  for (size_t i = 0; i < COUNT; ++i) changed[i] = i % 10 == 0 ? 1 : 0;
  if (strcmp(what, "handles") == 0 && argc > 2) {
    use_handles(argv[2]);
  } else if (strcmp(what, "meeting") == 0) {
    if (ok(sparclGetUniqueId(&id), NULL, "GetUniqueId")) run_ranks(meet);
  } else if (strcmp(what, "collectives") == 0 || strcmp(what, "requests") == 0) {
    if (strcmp(what, "requests") == 0) calls = make_requests;
    if (ok(sparclCommInitLocal(comms, RANKS), NULL, "CommInitLocal")) run_ranks(run);
  } else {
    fprintf(stderr, "usage: library_calls collectives|requests|handles|meeting [FILE]\n");
    return 2;
  }
  return worst;
}
