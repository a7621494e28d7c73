/* What a C99 program over MPI needs of the install tree. */
#include <mpi.h>
#include <sparcl/sparcl_mpi.h>
#include <stdio.h>

enum { kCount = 50000 };
static double weights[kCount], base[kCount];

int main(int argc, char** argv) {
  sparclComm_t comm = NULL;
  int rank = -1, i, wrong = 0;
  MPI_Init(&argc, &argv);
  if (sparclCommInitMpi(&comm, MPI_COMM_WORLD, NULL) != sparclSuccess ||
      sparclCommUserRank(comm, &rank) != sparclSuccess) {
    fprintf(stderr, "no communicator: %s\n", sparclGetLastError(comm));
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  for (i = 0; i < kCount; ++i) weights[i] = base[i] = i;
  if (rank == 0) weights[kCount / 2] = -1;
  if (sparclBroadcastDelta(weights, base, kCount, sparclFloat64, 0, NULL, comm, NULL) !=
      sparclSuccess) {
    fprintf(stderr, "rank %d: %s\n", rank, sparclGetLastError(comm));
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  for (i = 0; i < kCount; ++i) wrong += weights[i] != (i == kCount / 2 ? -1 : i);
  printf("rank %d: %d wrong\n", rank, wrong);
  sparclCommDestroy(comm);
  MPI_Finalize();
  return wrong != 0;
}
