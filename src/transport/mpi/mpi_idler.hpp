#pragma once
// How a rank waits: it spins if it has a core of its own, else it leaves the core to working ranks.

#include <mpi.h>

#include <cstdint>

namespace sparcl::transport {

class MpiIdler {
 public:
  // Collective over comm.
  explicit MpiIdler(MPI_Comm comm);

  bool is_simulated() const { return simulated_; }

  // The caller has found nothing for the turns-th time in a row.
  void idle(std::uint64_t turns, double seconds_left) const;

  // Sleeps, in simulated time if the clock is simulated.
  static void nap(double seconds);

 private:
  bool simulated_ = false;
  bool crowded_ = false;  // more ranks than cores on this node
};

}  // namespace sparcl::transport
