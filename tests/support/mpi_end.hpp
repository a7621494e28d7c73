#pragma once
// MPI_Finalize for tests. That of MPICH 4.0 over UCX 1.13 waits for ever where sends were never
// taken, and over TCP every few times in any program, with four ranks
// (github.com/openucx/ucx/issues/8738 tells of such a hang).

#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace sparcl::test {

inline bool runs_on_mpich() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  return std::strstr(text, "MPICH") != nullptr;
}

// All ranks come here, and this process ends with the code that is returned: the greatest of all
// ranks', as `mpiexec` of MPICH loses codes of ranks that end without MPI_Finalize. There none
// calls it: the launcher fails where some do, and others end.
inline int end_mpi(int code) {
  constexpr double kSeconds = 1;  // the last messages of the sum still need both ends
  int worst = code;
  MPI_Allreduce(&code, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (!runs_on_mpich()) {
    MPI_Finalize();
    return worst;
  }
  const double begin = MPI_Wtime();
  for (int found = 0; MPI_Wtime() - begin < kSeconds;) {
    MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
    sched_yield();
  }
  std::fflush(nullptr);
  _exit(worst);
}

}  // namespace sparcl::test
