#include "src/transport/mpi/mpi_state.hpp"

namespace sparcl::transport {
namespace {

#ifdef MPI_SESSION_NULL
constexpr bool kHasSessions = true;
#else
constexpr bool kHasSessions = false;
#endif

// In SimGrid's simulation each rank is a thread of one process, and MPI_Is_thread_main is true for
// one of them.
#ifdef SMPI_H
constexpr bool kRanksAreThreads = true;
#else
constexpr bool kRanksAreThreads = false;
#endif

bool mpi_is_initialized() noexcept {
  int initialized = 0;
  MPI_Initialized(&initialized);
  return initialized != 0;
}

}  // namespace

bool mpi_is_finalized() noexcept {
  int finalized = 0;
  MPI_Finalized(&finalized);
  return finalized != 0;
}

Status check_mpi_is_there(MPI_Comm comm) {
  if (mpi_is_finalized())
    return Status(
        Code::kInvalidUsage,
        "MPI_Finalize has been called: make communicators between MPI_Init and MPI_Finalize");
  if (comm == MPI_COMM_NULL)
    return Status(Code::kInvalidArgument,
                  "mpi is MPI_COMM_NULL: expected a communicator that this process belongs to");
  if (mpi_is_initialized() || (kHasSessions && comm != MPI_COMM_WORLD && comm != MPI_COMM_SELF))
    return {};
  return Status(Code::kInvalidUsage, "MPI is not initialised: call MPI_Init first");
}

MpiThreads::MpiThreads() {
  int level = MPI_THREAD_MULTIPLE;
  if (mpi_is_initialized() && !mpi_is_finalized()) MPI_Query_thread(&level);
  is_main_only_ = !kRanksAreThreads && level < MPI_THREAD_SERIALIZED;
}

bool MpiThreads::includes_this() const noexcept {
  int is_main = 1;
  if (is_main_only_ && !mpi_is_finalized()) MPI_Is_thread_main(&is_main);
  return is_main != 0;
}

Status MpiThreads::check_this() const {
  if (includes_this()) return {};
  return Status(Code::kInvalidUsage,
                "this thread may not call MPI, which was initialised by MPI_Init, or with a level "
                "below MPI_THREAD_SERIALIZED. Call from the thread that initialised MPI, or ask "
                "MPI_Init_thread for MPI_THREAD_SERIALIZED or more");
}

}  // namespace sparcl::transport
