#pragma once
// How the ranks come to life: as threads of this process, or as the processes of mpirun or srun.

#include <functional>

#include "sparcl/sparcl.hpp"

namespace training {

using RankBody = std::function<void(sparcl::Comm&)>;

// Runs body on each of `ranks` threads, then throws the first rank's error that is not just news of
// another's.
void run_as_threads(int ranks, const RankBody& body);

// Whether mpirun or srun started this process and this program was built with MPI.
bool is_started_by_mpi();

// Runs body as this process's rank of MPI_COMM_WORLD. On an error it prints it, under the program's
// name, and ends the MPI job.
void run_under_mpi(const char* program, const RankBody& body);

// True for the error that a rank sees when another one failed.
bool is_news_of_another(const std::exception& error);

}  // namespace training
