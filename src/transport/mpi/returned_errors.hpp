#pragma once
// Errors of MPI on a communicator of the caller's are returned to us, whatever handler the caller
// has set; then that is back.

#include <mpi.h>

namespace sparcl::transport {

// Several at a time for one communicator, also of different threads: the last one puts the caller's
// handler back. Errors that another thread of the caller meets meanwhile on this communicator are
// returned, too.
class ReturnedErrors {
 public:
  explicit ReturnedErrors(MPI_Comm comm);
  ~ReturnedErrors();
  ReturnedErrors(const ReturnedErrors&) = delete;
  ReturnedErrors& operator=(const ReturnedErrors&) = delete;

 private:
  MPI_Comm comm_;
};

}  // namespace sparcl::transport
