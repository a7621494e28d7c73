// What a C++20 program over MPI needs of the install tree.
#include <sparcl/sparcl_mpi.h>

#include <cstdio>
#include <sparcl/sparcl.hpp>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int result = 1;
  {
    sparcl::Comm comm = sparcl::Comm::mpi(MPI_COMM_WORLD);
    std::vector<int> weights(10000, 3);
    const std::vector<int> base = weights;
    if (comm.rank() == 0) weights[1234] = 4;
    comm.broadcast_delta(std::span(weights), std::span(base), 0);
    result = weights[1234] == 4 && weights[1233] == 3 ? 0 : 1;
    std::printf("rank %d of %d: %s\n", comm.rank(), comm.size(), result == 0 ? "ok" : "wrong");
  }
  MPI_Finalize();
  return result;
}
