#pragma once
// MPI returns its errors on the caller's communicator instead of calling the caller's handler. The
// caller's handler is restored afterwards.

#include <mpi.h>

namespace sparcl::transport {

// Several objects may exist for one communicator, also of different threads: the last one restores
// the caller's handler. Errors of another thread of the caller on this communicator are returned
// meanwhile, too.
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
