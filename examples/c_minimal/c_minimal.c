/* Rank 0 holds a sparse vector, three entries of a long one; afterwards every rank does. mpirun -n
 * 4 c_minimal */
#include <sparcl/sparcl_mpi.h>
#include <stdio.h>

#define CHECK(call)                                    \
  if ((call) != sparclSuccess) {                       \
    fprintf(stderr, "%s\n", sparclGetLastError(comm)); \
    MPI_Abort(MPI_COMM_WORLD, 1);                      \
  }

int main(int argc, char** argv) {
  sparclComm_t comm = NULL;
  int rank = 0;
  float values[8] = {0.5f, -1.0f, 2.0f};
  uint64_t indices[8] = {7, 1000, 4000000000}; /* ascending; 64 bits wide */
  size_t nnz = 3;
  MPI_Init(&argc, &argv);
  CHECK(sparclCommInitMpi(&comm, MPI_COMM_WORLD, NULL));
  CHECK(sparclCommUserRank(comm, &rank));
  if (rank != 0) nnz = 0; /* what rank 0 sends is not known here; 8 entries have room */
  CHECK(sparclBroadcastSparse(values, indices, &nnz, 8, sparclFloat32, 0, NULL, comm, NULL));
  printf("rank %d: %d entries, the last is %g at %llu\n", rank, (int)nnz, values[nnz - 1],
         (unsigned long long)indices[nnz - 1]);
  CHECK(sparclCommDestroy(comm));
  MPI_Finalize();
  return 0;
}
