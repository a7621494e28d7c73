#pragma once
// What survivors of a transport tell each other through it, before they have one of their own.

#include <span>
#include <vector>

#include "src/base/status.hpp"
#include "src/transport/peer_card.hpp"
#include "src/transport/transport.hpp"

namespace sparcl::transport {

// An all-gather among `ranks` of the transport, this one's among them, in their order; blocks. Each
// rank sends to all the others whatever fails meanwhile, so that one death delays nobody else. The
// channel serves one such call.
Result<std::vector<Bytes>> survivor_gather(Transport& transport, Channel channel,
                                           std::span<const int> ranks,
                                           std::span<const std::byte> own, double timeout_s);

}  // namespace sparcl::transport
