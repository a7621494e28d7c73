/* What a C99 program without MPI needs of the install tree: three processes that meet by a unique
 * id. */
#define _POSIX_C_SOURCE 200809L
#include <sparcl/sparcl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kRanks = 3, kCount = 50000 };
static double weights[kCount], base[kCount];

static int fail(int rank, const char* what, sparclComm_t comm) {
  fprintf(stderr, "rank %d: %s: %s\n", rank, what, sparclGetLastError(comm));
  return 1;
}

static int run_rank(int rank, sparclUniqueId id) {
  sparclComm_t comm = NULL;
  int i, wrong = 0;
  if (sparclCommInitRank(&comm, kRanks, id, rank, NULL) != sparclSuccess)
    return fail(rank, "no communicator", NULL);
  for (i = 0; i < kCount; ++i) weights[i] = base[i] = i;
  if (rank == 0) weights[kCount / 2] = -1;
  if (sparclBroadcastDelta(weights, base, kCount, sparclFloat64, 0, NULL, comm, NULL) !=
      sparclSuccess)
    return fail(rank, "broadcast", comm);
  for (i = 0; i < kCount; ++i) wrong += weights[i] != (i == kCount / 2 ? -1 : i);
  printf("rank %d: %d wrong\n", rank, wrong);
  fflush(stdout);
  return sparclCommDestroy(comm) != sparclSuccess || wrong != 0;
}

/* The process that makes the id has a thread that serves it: the children must not be forked after
 * that. So rank 0 is the last child. */
int main(void) {
  sparclUniqueId id;
  int pipes[kRanks][2], rank, peer, failed = 0;
  for (rank = 1; rank < kRanks; ++rank) {
    if (pipe(pipes[rank]) != 0) return 1;
    if (fork() == 0)
      return read(pipes[rank][0], &id, sizeof id) != (ssize_t)sizeof id || run_rank(rank, id);
  }
  if (sparclGetUniqueId(&id) != sparclSuccess) return fail(0, "no unique id", NULL);
  for (rank = 1; rank < kRanks; ++rank)
    failed |= write(pipes[rank][1], &id, sizeof id) != (ssize_t)sizeof id;
  failed |= run_rank(0, id);
  for (rank = 1; rank < kRanks; ++rank) {
    peer = 0;
    if (wait(&peer) < 0 || peer != 0) failed = 1;
  }
  return failed;
}
