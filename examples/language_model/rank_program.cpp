#include "rank_program.hpp"

#include <cstdio>
#include <exception>

namespace training {

int run_program(const char* program, int threads, const RankBody& body) {
  try {
    if (is_started_by_mpi()) {
      run_under_mpi(program, body);
    } else {
      run_as_threads(threads, body);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
    return 1;
  }
  return 0;
}

}  // namespace training
