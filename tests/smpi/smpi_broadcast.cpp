// The sparse broadcast in simulation, through the public interface: 16 ranks, several roots and
// versions, and an error that all agree on.

#include <cstdio>
#include <numeric>
#include <vector>

#include "sparcl/sparcl.hpp"
#include "sparcl/sparcl_mpi.h"

namespace {

// What the model is at a version: the same on whoever computes it.
std::vector<float> weights_at(std::uint64_t version, std::size_t count) {
  std::vector<float> weights(count);
  std::iota(weights.begin(), weights.end(), 1.0f);
  for (std::uint64_t v = 2; v <= version; ++v) {
    for (std::size_t i = v; i < count; i += 61) weights[i] *= 1.0f + 1.0f / static_cast<float>(v);
  }
  return weights;
}

bool models_stay_in_step(sparcl::Comm& comm) {
  std::vector<float> weights(50'000);
  sparcl::State state;
  state.add("weights", std::span(weights), {500, 100});
  bool right = true;
  std::uint64_t version = 0;
  for (const int root : {0, 0, 0, 5, 15}) {
    ++version;
    if (comm.rank() == root) {
      const std::vector<float> next = weights_at(version, weights.size());
      std::copy(next.begin(), next.end(), weights.begin());
    }
    const double begin = MPI_Wtime();
    const sparcl::Report report = comm.broadcast_update(state, version, root);
    if (comm.rank() == 0) {
      std::printf("version %d from rank %d by %s: %llu bytes, %.1f simulated us\n",
                  static_cast<int>(version), root, report.algorithm,
                  static_cast<unsigned long long>(report.bytes_bound), (MPI_Wtime() - begin) * 1e6);
    }
    right = right && weights == weights_at(version, weights.size());
  }
  return right;
}

bool mismatch_is_agreed(sparcl::Comm& comm) {
  std::vector<float> held(100, 1.0f);
  const std::size_t count = comm.rank() == 7 ? 99 : 100;
  return sparclBroadcastDelta(held.data(), nullptr, count, sparclFloat32, 0, nullptr, comm.get(),
                              nullptr) == sparclMismatch &&
         sparclBroadcastDelta(held.data(), nullptr, 100, sparclFloat32, 0, nullptr, comm.get(),
                              nullptr) == sparclSuccess;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int mine = 0, all = 0;
  {
    sparcl::Comm comm = sparcl::Comm::mpi(MPI_COMM_WORLD);
    mine = models_stay_in_step(comm) && mismatch_is_agreed(comm) ? 1 : 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (comm.rank() == 0 && all == 1) std::printf("all checks passed in simulation\n");
  }
  MPI_Finalize();
  return all == 1 ? 0 : 1;
}
