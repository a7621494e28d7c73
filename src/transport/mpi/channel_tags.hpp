#pragma once

#include "src/transport/transport.hpp"

namespace sparcl::transport {

// Channels as MPI tags. A tag comes again after so many calls as fit below MPI_TAG_UB: 8 million
// for Open MPI and SMPI; by then the old call's messages are long received, or dropped by its
// close().
class ChannelTags {
 public:
  explicit ChannelTags(int upper_bound)
      : calls_((static_cast<std::uint32_t>(upper_bound) + 1u) / kLanes) {}

  int of(Channel channel) const {
    return static_cast<int>((channel.call % calls_) * kLanes + channel.lane);
  }

 private:
  static constexpr std::uint32_t kLanes = 256;  // MPI promises 32,767 tags at least
  std::uint32_t calls_;
};

}  // namespace sparcl::transport
