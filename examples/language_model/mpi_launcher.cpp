#include <mpi.h>
#include <sparcl/sparcl_mpi.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>

#include "rank_launcher.hpp"

namespace training {

// By the launchers' environment, since MPI_Init without a launcher is one rank at best, and fails
// on some systems.
bool is_started_by_mpi() {
  for (const char* name :
       {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

void run_under_mpi(const char* program, const RankBody& body) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  try {
    if (provided < MPI_THREAD_FUNNELED)
      throw std::runtime_error("MPI does not offer MPI_THREAD_FUNNELED");
    sparcl::Comm comm = sparcl::Comm::mpi(MPI_COMM_WORLD);
    body(comm);
  } catch (const std::exception& error) {
    if (!is_news_of_another(error)) std::fprintf(stderr, "%s: %s\n", program, error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}

}  // namespace training
