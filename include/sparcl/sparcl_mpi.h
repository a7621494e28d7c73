/* sparcl over MPI: link sparcl_mpi (CMake: sparcl::mpi, pkg-config: sparcl-mpi). */
#ifndef SPARCL_SPARCL_MPI_H_
#define SPARCL_SPARCL_MPI_H_

#include <mpi.h>

#include "sparcl/sparcl.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A communicator over the ranks of `mpi`; collective over it. `mpi` is duplicated and stays the caller's. MPI must be initialised,
 * with MPI_THREAD_FUNNELED or more, and must not be finalised before sparclCommDestroy. config: may be NULL. */
SPARCL_API sparclResult_t sparclCommInitMpi(sparclComm_t* comm, MPI_Comm mpi, const sparclConfig_t* config);

#ifdef __cplusplus
}

/* What sparcl::Comm::mpi() of sparcl.hpp calls. */
namespace sparcl {
namespace detail {
template <class MpiComm>
struct InitMpi;
template <>
struct InitMpi<MPI_Comm> {
  static sparclResult_t call(sparclComm_t* comm, MPI_Comm mpi, const sparclConfig_t* config) {
    return sparclCommInitMpi(comm, mpi, config);
  }
};
}  // namespace detail
}  // namespace sparcl
#endif

#endif /* SPARCL_SPARCL_MPI_H_ */
