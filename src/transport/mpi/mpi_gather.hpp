#pragma once
// The few bytes that all ranks tell each other before there is a transport, over MPI. Collective
// over comm.

#include <mpi.h>

#include "src/transport/peer_card.hpp"

namespace sparcl::transport {

Result<std::vector<Bytes>> mpi_gather(MPI_Comm comm, std::span<const std::byte> own);

}  // namespace sparcl::transport
