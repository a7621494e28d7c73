#pragma once
// Times of work that all ranks do at once.

#include <mpi.h>
#include <unistd.h>

namespace bench {

// Waits without using the core that another rank works on.
inline void quiet_barrier() {
  MPI_Request request;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (int done = 0; done == 0; usleep(20)) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
}

// The time until the last rank is through; the same on every rank.
template <class Work>
double timed(Work&& work) {
  quiet_barrier();
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  work();
  double mine = MPI_Wtime() - begin, last = 0;
  quiet_barrier();
  MPI_Allreduce(&mine, &last, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return last;
}

}  // namespace bench
