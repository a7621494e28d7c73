#pragma once
// The first operation of ranks over MPI: late ranks are waited for with warnings, and not for ever.

#include <mpi.h>

#include <vector>

#include "src/base/status.hpp"

namespace sparcl::transport {

// Collective over comm: the largest of each number over all ranks. `call` names the public call in
// warnings and errors. After a Timeout MPI still waits in comm, so no collective call in it is
// possible.
Result<std::vector<int>> meet_by_mpi(MPI_Comm comm, std::vector<int> own, const char* call,
                                     double timeout_s);

}  // namespace sparcl::transport
