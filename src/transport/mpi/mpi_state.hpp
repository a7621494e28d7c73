#pragma once
// Whether MPI may be called, and by which thread. All functions here may be called at any time,
// from any thread.

#include <mpi.h>

#include "src/base/status.hpp"

namespace sparcl::transport {

bool mpi_is_finalized() noexcept;
// The error of calls after MPI_Finalize.
inline constexpr const char* kMpiIsFinalized =
    "MPI_Finalize has been called, and this communicator goes through MPI: only sparclCommDestroy "
    "is left; make all calls before MPI_Finalize";

// Checks that MPI can have made the communicator: by MPI_Init, or by a session of MPI 4. A
// session's communicators exclude the predefined ones.
Status check_mpi_is_there(MPI_Comm comm);

// The threads that may call MPI. For a session this is unknown: all may.
class MpiThreads {
 public:
  MpiThreads();
  bool includes_this() const noexcept;
  Status check_this() const;

 private:
  bool is_main_only_ = false;
};

}  // namespace sparcl::transport
