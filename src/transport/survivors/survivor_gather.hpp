#pragma once
// Data that survivors of a transport exchange through it, before they have a transport of their
// own.

#include <span>
#include <vector>

#include "src/base/status.hpp"
#include "src/transport/peer_card.hpp"
#include "src/transport/transport.hpp"

namespace sparcl::transport {

// An all-gather among `ranks` of the transport, in their order, with this rank among them; blocks.
// Each rank sends to all other ranks, whatever fails meanwhile, so that one death delays no other
// rank. The channel serves one such call.
Result<std::vector<Bytes>> survivor_gather(Transport& transport, Channel channel,
                                           std::span<const int> ranks,
                                           std::span<const std::byte> own, double timeout_s);

}  // namespace sparcl::transport
