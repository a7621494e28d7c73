#pragma once
// Gathers a few bytes of all ranks over MPI, before there is a transport. Collective over comm.

#include <mpi.h>

#include "src/transport/peer_card.hpp"

namespace sparcl::transport {

Result<std::vector<Bytes>> mpi_gather(MPI_Comm comm, std::span<const std::byte> own);

}  // namespace sparcl::transport
