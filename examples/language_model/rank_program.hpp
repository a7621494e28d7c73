#pragma once
// A program whose ranks are MPI's if mpirun or srun started it, else threads.

#include "rank_launcher.hpp"

namespace training {

// Returns the exit code of main: 0, or 1 after an error, which is printed under the program's name.
int run_program(const char* program, int threads, const RankBody& body);

}  // namespace training
