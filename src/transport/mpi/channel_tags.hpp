#pragma once

#include "src/transport/transport.hpp"

namespace sparcl::transport {

// Channels as MPI tags. The number of calls until a tag is used again depends on MPI_TAG_UB: 134
// million for Open MPI, 2,048 for the least that MPI promises. By then the old call's messages were
// received, or dropped by its close(). Fewer requests than that are in flight.
class ChannelTags {
 public:
  explicit ChannelTags(int upper_bound)
      : calls_((static_cast<std::uint32_t>(upper_bound) + 1u) / kLanes) {}

  int of(Channel channel) const {
    return static_cast<int>((channel.call % calls_) * kLanes + channel.lane);
  }

 private:
  std::uint32_t calls_;
};

}  // namespace sparcl::transport
