#include "src/transport/mpi/mpi_idler.hpp"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace sparcl::transport {
namespace {

bool runs_under_smpi() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING + 1> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  return std::strstr(text.data(), "SMPI") != nullptr;
}

// Whether this node has more ranks than cores that they may use together.
bool node_is_crowded(MPI_Comm comm) {
  MPI_Comm node = MPI_COMM_NULL;
  if (MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node) != MPI_SUCCESS)
    return true;
  int ranks = 1;
  MPI_Comm_size(node, &ranks);
  cpu_set_t own, all;
  CPU_ZERO(&own);
  if (sched_getaffinity(0, sizeof own, &own) != 0) CPU_ZERO(&own);
  all = own;
  MPI_Allreduce(&own, &all, sizeof own, MPI_BYTE, MPI_BOR, node);
  MPI_Comm_free(&node);
  return ranks > CPU_COUNT(&all);
}

}  // namespace

MpiIdler::MpiIdler(MPI_Comm comm)
    : simulated_(runs_under_smpi()), crowded_(!simulated_ && node_is_crowded(comm)) {}

// All figures are heuristics. The kernel adds some 50 us to each sleep, so sleeps come late. An
// oversubscribed node sleeps after about 20 us of yielding. Other nodes sleep only after a wait of
// some 10 ms, against which the sleep is short.
void MpiIdler::idle(std::uint64_t turns, double seconds_left) const {
  const std::uint64_t spins = crowded_ ? 4 : 2'000;
  const std::uint64_t yields = crowded_ ? 40 : 30'000;
  if (turns < spins) return;
  if (turns < spins + yields) {
    sched_yield();
    return;
  }
  const double longest =
      crowded_ ? 5e-6 * static_cast<double>(std::min<std::uint64_t>(turns - spins - yields + 1, 16))
               : 20e-6;
  nap(std::min(longest, seconds_left));
}

// SMPI's compiler wrapper replaces nanosleep().
void MpiIdler::nap(double seconds) {
  if (!(seconds > 0)) return;
  timespec time{};
  time.tv_sec = static_cast<time_t>(seconds);
  time.tv_nsec = static_cast<long>((seconds - static_cast<double>(time.tv_sec)) * 1e9);
  nanosleep(&time, nullptr);
}

}  // namespace sparcl::transport
