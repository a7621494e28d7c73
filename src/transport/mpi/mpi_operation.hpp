#pragma once

#include <memory>

#include "src/transport/transport.hpp"

namespace sparcl::transport {

// A cancelled operation is done for its caller, while MPI may still hold its requests.
struct MpiOperation final : Operation {
  Buffer head;  // a head in flight, if it does not use the operation's own buffer
  std::uint32_t open_requests = 0;  // how many MPI holds
  int body_tag = 0;                 // of a body that is discarded
  std::uint64_t left_bytes = 0;     // likewise: bytes still to come
};
using MpiOperationRef = std::shared_ptr<MpiOperation>;

}  // namespace sparcl::transport
