/** @file
 * sparcl over MPI: link sparcl_mpi (CMake: sparcl::mpi, pkg-config: sparcl-mpi). */
#ifndef SPARCL_SPARCL_MPI_H_
#define SPARCL_SPARCL_MPI_H_

#include <mpi.h>
#include <stddef.h>

#include "sparcl/sparcl.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The MPI that this program is compiled with. Programs run with the MPI that libsparcl_mpi was
 * built for (`sparcl info` names it). */
#if defined(OPEN_MPI)
#define SPARCL_MPI_FAMILY "Open MPI"
#elif defined(MPICH_VERSION) || defined(MPICH_NAME) || defined(I_MPI_VERSION) || \
    defined(MVAPICH2_VERSION)
#define SPARCL_MPI_FAMILY "MPICH"
#else
#define SPARCL_MPI_FAMILY ""
#endif

/** Makes a communicator over the ranks of an MPI communicator.
 * Collective over mpi; blocks until all its ranks have called. MPI must be initialised.
 * @param comm written on success; destroy it by sparclCommDestroy before MPI_Finalize or
 *   MPI_Session_finalize
 * @param mpi is duplicated; stays the caller's, with its error handler; may be of an MPI 4 session
 * @param config may be NULL
 * @retval sparclInvalidUsage MPI is not initialised, or finalised; this thread may not call MPI; or
 *   the program is compiled with another MPI than the library
 * @retval sparclInvalidArgument comm, mpi or config
 * @retval sparclMismatch ranks differ in transport or heartbeats
 * @retval sparclTimeout a rank did not call within timeout_s: mpi cannot be used any more
 * @retval sparclSystemError MPI returned an error, for example no more communicators
 *
 * If one rank refuses, all ranks return its error.
 *
 * Threads: MPI_Init suffices. With MPI_THREAD_SINGLE or MPI_THREAD_FUNNELED only the thread that
 * initialised MPI calls this function and uses the communicator. With MPI_THREAD_SERIALIZED any
 * thread does, if one thread at a time is in MPI or in these calls. With MPI_THREAD_MULTIPLE one
 * thread at a time uses a communicator. Threads of the library never call MPI.
 *
 * After MPI_Finalize, calls that communicate are sparclInvalidUsage, and sparclCommDestroy frees
 * what the library owns. */
#ifdef SPARCL_BUILDS_MPI_LIBRARY
SPARCL_API sparclResult_t sparclCommInitMpi(sparclComm_t* comm, MPI_Comm mpi,
                                            const sparclConfig_t* config);
#endif
/* The function behind sparclCommInitMpi. family and handle_bytes say which MPI the program is
 * compiled with. Not for direct use. */
SPARCL_API sparclResult_t sparclInternalCommInitMpi(sparclComm_t* comm, MPI_Comm mpi,
                                                    const sparclConfig_t* config,
                                                    const char* family, size_t handle_bytes);
#ifndef SPARCL_BUILDS_MPI_LIBRARY
static inline sparclResult_t sparclCommInitMpi(sparclComm_t* comm, MPI_Comm mpi,
                                               const sparclConfig_t* config) {
  return sparclInternalCommInitMpi(comm, mpi, config, SPARCL_MPI_FAMILY, sizeof(MPI_Comm));
}
#endif

#ifdef __cplusplus
}

/* For sparcl::Comm::mpi() of sparcl.hpp. */
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
