// Random collectives, ranks of mpirun, over the transport that SPARCL_TRANSPORT names.
//   mpirun -n 8 random_mpi [--seed S] [--calls N] [--series I]

#include <cstdio>

#include "tests/random/random_series.hpp"
#include "tests/support/mpi_end.hpp"
#include "tests/support/mpi_meeting.hpp"

int main(int argc, char** argv) {
  using namespace sparcl::test;
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  RandomPlan plan;
  if (!parse(argc, argv, plan)) {
    MPI_Finalize();
    return 2;
  }
  int wrong = 0;
  {
    MpiMeeting meeting;
    const double begin = MPI_Wtime();
    const RandomOutcome outcome = run_random(meeting, plan);
    const std::string replay = "mpirun -n " + std::to_string(meeting.size()) + " " + argv[0];
    wrong = report(meeting, plan, outcome, replay, MPI_Wtime() - begin) ? 0 : 1;
    std::fflush(stdout);
    if (!outcome.failures.empty())
      MPI_Abort(MPI_COMM_WORLD, 1);  // the others go on without this rank
  }
  return end_mpi(wrong);
}
