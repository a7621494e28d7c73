#pragma once
// The first that ranks do together over MPI: whoever does not come is waited for with warnings, and
// not for ever.

#include <mpi.h>

#include <vector>

#include "src/base/status.hpp"

namespace sparcl::transport {

// Collective over comm: of each number the largest of all ranks. `call` names the public call in
// warnings and errors. After a Timeout MPI still waits in comm: no collective call in it can be
// made any more.
Result<std::vector<int>> meet_by_mpi(MPI_Comm comm, std::vector<int> own, const char* call,
                                     double timeout_s);

}  // namespace sparcl::transport
