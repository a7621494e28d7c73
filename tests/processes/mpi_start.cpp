// Ranks that MPI started; SPARCL_TRANSPORT says what carries their bytes.

#include <unistd.h>

#include "sparcl/sparcl_mpi.h"
#include "tests/processes/rank_start.hpp"
#include "tests/support/mpi_end.hpp"

namespace sparcl::test {

RankStart::RankStart() {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
}

sparclResult_t RankStart::meet(sparclComm_t* comm, const std::function<void(const std::string&)>&) {
  return sparclCommInitMpi(comm, MPI_COMM_WORLD, nullptr);
}

// MPI_Finalize waits for all ranks, also for the dead. Who ends without it is taken for dead
// itself, and the launcher ends the others: they may still have something to say.
void RankStart::end(bool all_alive) {
  constexpr unsigned kPatienceSeconds = 1;
  if (all_alive) {
    (void)end_mpi(0);
  } else {
    ::sleep(kPatienceSeconds);
  }
}

}  // namespace sparcl::test
