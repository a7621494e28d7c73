// says: include <sparcl/sparcl_mpi.h>, and link sparcl::mpi (pkg-config: sparcl-mpi)
#include "sparcl/sparcl.hpp"

struct Communicator;  // as MPI_Comm is with Open MPI

#ifndef MISUSE
template <>
struct sparcl::detail::InitMpi<Communicator*> {  // as sparcl_mpi.h does
  static sparclResult_t call(sparclComm_t*, Communicator*, const sparclConfig_t*) {
    return sparclSuccess;
  }
};
#endif

int main() { return sparcl::Comm::mpi(static_cast<Communicator*>(nullptr)).size(); }
