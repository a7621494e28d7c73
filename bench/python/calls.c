// The same calls as in overhead.py, from C: seconds of one call, or of one broadcast of two ranks.
#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "sparcl/sparcl.h"

static double now_s(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

// Returns a negative number if a call fails.
double seconds_of_top_k(const float* x, float* out, size_t count, size_t k, int calls) {
  sparclComm_t comm = NULL;
  double begin;
  int i;
  if (sparclCommInitLocal(&comm, 1) != sparclSuccess) return -1;
  begin = now_s();
  for (i = 0; i < calls; ++i) {
    if (sparclAllReduceTopK(x, out, count, k, sparclFloat32, sparclSum, NULL, NULL, comm, NULL) !=
        sparclSuccess)
      return -1;
  }
  begin = now_s() - begin;
  sparclCommDestroy(comm);
  return begin / calls;
}

typedef struct {
  sparclComm_t comm;
  float* weights;
  const float* base;
  size_t count;
  int failed;
} Rank;

static void* broadcast(void* arg) {
  Rank* rank = (Rank*)arg;
  rank->failed = sparclBroadcastDelta(rank->weights, rank->base, rank->count, sparclFloat32, 0,
                                      NULL, rank->comm, NULL) != sparclSuccess;
  return NULL;
}

// weights: of both ranks, 2 * count elements; the first half is the root's.
double seconds_of_broadcast(float* weights, const float* base, size_t count) {
  sparclComm_t comms[2];
  Rank ranks[2];
  pthread_t thread;
  double begin;
  int r;
  if (sparclCommInitLocal(comms, 2) != sparclSuccess) return -1;
  for (r = 0; r < 2; ++r) {
    ranks[r].comm = comms[r];
    ranks[r].weights = weights + (size_t)r * count;
    ranks[r].base = r == 0 ? base : NULL;
    ranks[r].count = count;
  }
  begin = now_s();
  if (pthread_create(&thread, NULL, broadcast, &ranks[1]) != 0) return -1;
  broadcast(&ranks[0]);
  pthread_join(thread, NULL);
  begin = now_s() - begin;
  for (r = 0; r < 2; ++r) sparclCommDestroy(comms[r]);
  return ranks[0].failed || ranks[1].failed ? -1 : begin;
}
