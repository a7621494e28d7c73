#pragma once
// Whether MPI may be called, and by which thread. All functions here may be called at any time,
// from any thread.

#include <mpi.h>

#include "src/base/status.hpp"

namespace sparcl::transport {

bool mpi_is_finalized() noexcept;
// What calls get after MPI_Finalize.
inline constexpr const char* kMpiIsFinalized =
    "MPI_Finalize has been called, and this communicator goes through MPI: only sparclCommDestroy "
    "is left; make all calls before MPI_Finalize";

// Where a communicator can come from: MPI_Init, or, without it, a session of MPI 4, whose
// communicators are all but the predefined ones.
Status check_mpi_is_there(MPI_Comm comm);

// Which threads may call MPI. Of a session it is not known: all may.
class MpiThreads {
 public:
  MpiThreads();
  bool includes_this() const noexcept;
  Status check_this() const;

 private:
  bool is_main_only_ = false;
};

}  // namespace sparcl::transport
