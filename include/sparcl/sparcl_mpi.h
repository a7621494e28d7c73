/* sparcl over MPI: link sparcl_mpi (CMake: sparcl::mpi, pkg-config: sparcl-mpi). */
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

/* Makes a communicator over the ranks of `mpi`. Collective over `mpi`; blocks until all its ranks
 * have called.
 *
 * comm    written on success; ended by sparclCommDestroy, before MPI_Finalize or
 * MPI_Session_finalize mpi     duplicated; stays the caller's, with its error handler. It may come
 * of a session of MPI 4 config  may be NULL
 *
 * MPI must be initialised; MPI_Init suffices. Threads: with MPI_THREAD_SINGLE or
 * MPI_THREAD_FUNNELED (MPI_Init gives one of them) only the thread that initialised MPI calls this
 * and the communicator's functions. With MPI_THREAD_SERIALIZED any thread does, and the program
 * sees to it that one thread at a time is in MPI or in these calls. With MPI_THREAD_MULTIPLE one
 * thread at a time a communicator. Threads of the library's own never call MPI.
 *
 * After MPI_Finalize calls that communicate are sparclInvalidUsage, and sparclCommDestroy frees
 * what is sparcl's.
 *
 * Errors. If one rank refuses, all ranks return its error:
 *  sparclInvalidUsage    MPI is not initialised, or finalised; this thread may not call MPI;
 * another MPI than the library's sparclInvalidArgument comm, mpi or config sparclMismatch ranks
 * differ in transport or heartbeats sparclTimeout         a rank did not call within config's
 * timeout_s: no collective call over mpi is possible any more sparclSystemError     MPI returned an
 * error, for example no room for another communicator */
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
