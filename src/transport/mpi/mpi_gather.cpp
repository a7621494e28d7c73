#include "src/transport/mpi/mpi_gather.hpp"

#include <climits>
#include <cstring>

#include "src/transport/mpi/mpi_error.hpp"

namespace sparcl::transport {

Result<std::vector<Bytes>> mpi_gather(MPI_Comm comm, std::span<const std::byte> own) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  const auto ranks = static_cast<std::size_t>(size);
  int own_bytes = static_cast<int>(own.size());
  std::vector<int> counts(ranks);
  SPARCL_RETURN_IF_ERROR(
      mpi_status(MPI_Allgather(&own_bytes, 1, MPI_INT, counts.data(), 1, MPI_INT, comm),
                 "MPI_Allgather of address sizes"));
  std::vector<int> firsts(ranks);
  std::int64_t total = 0;
  for (std::size_t i = 0; i < ranks; ++i) {
    firsts[i] = static_cast<int>(total);
    total += counts[i];
  }
  if (total > INT_MAX)
    return Status(Code::kUnsupported, "the addresses of all ranks take more bytes than MPI counts");
  Bytes all(static_cast<std::size_t>(total));
  SPARCL_RETURN_IF_ERROR(mpi_status(MPI_Allgatherv(own.data(), own_bytes, MPI_BYTE, all.data(),
                                                   counts.data(), firsts.data(), MPI_BYTE, comm),
                                    "MPI_Allgatherv of addresses"));
  std::vector<Bytes> each;
  for (std::size_t i = 0; i < ranks; ++i) {
    const auto first = all.begin() + firsts[i];
    each.emplace_back(first, first + counts[i]);
  }
  return each;
}

}  // namespace sparcl::transport
