#include "src/transport/mpi/first_meeting.hpp"

#include <fmt/format.h>

#include "src/base/log.hpp"
#include "src/base/wait_warning.hpp"
#include "src/transport/mpi/kept_for_good.hpp"
#include "src/transport/mpi/mpi_error.hpp"
#include "src/transport/mpi/mpi_idler.hpp"

namespace sparcl::transport {
namespace {

constexpr double kEager =
    0.001;  // seconds: ranks that come together find each other without a sleep
constexpr double kNap = 0.0005;

}  // namespace

Result<std::vector<int>> meet_by_mpi(MPI_Comm comm, std::vector<int> own, const char* call,
                                     double timeout_s) {
  int rank = 0, size = 0, is_done = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  std::vector<int> all(own.size());
  MPI_Request request = MPI_REQUEST_NULL;
  SPARCL_RETURN_IF_ERROR(
      mpi_status(MPI_Iallreduce(own.data(), all.data(), static_cast<int>(own.size()), MPI_INT,
                                MPI_MAX, comm, &request),
                 "MPI_Iallreduce"));
  WaitWarning warning;
  const double begin = MPI_Wtime();
  Status tested;
  while (true) {
    tested = mpi_status(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
    if (tested.ok() && is_done != 0) return all;
    const double lasted = MPI_Wtime() - begin;
    if (!tested.ok() || lasted >= timeout_s) break;
    if (warning.is_due(lasted)) {
      log_warn(
          "rank {} has waited {:.3g} s in {}: at least one of the {} ranks of the MPI communicator "
          "has not made this call, is slow, or is stopped. The wait ends after {:g} s "
          "(SPARCL_TIMEOUT_S)",
          rank, lasted, call, size, timeout_s);
    }
    if (lasted > kEager) MpiIdler::nap(kNap);
  }
  keep_for_good(std::move(own));
  keep_for_good(std::move(all));
  SPARCL_RETURN_IF_ERROR(tested);
  return Status(
      Code::kTimeout,
      fmt::format(
          "at least one of the {} ranks of the MPI communicator has not made this call within {:g} "
          "s (SPARCL_TIMEOUT_S). No further collective call in that communicator is possible: end "
          "the job, and see which rank is stuck (`sparcl status` on its machine, or a debugger)",
          size, timeout_s));
}

}  // namespace sparcl::transport
