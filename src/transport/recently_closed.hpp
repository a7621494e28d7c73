#pragma once

#include <array>
#include <cstddef>

#include "src/transport/transport.hpp"

namespace sparcl::transport {

// The newest closed channels, looked at in turn for messages that no operation received. An older
// one must not stay: its tag may be a later call's by then, whose message would be taken for it.
class RecentlyClosed {
 public:
  static constexpr std::size_t kRemembered = 64;

  void add(Channel channel) {
    channels_[added_ % kRemembered] = channel;
    ++added_;
  }

  bool empty() const { return added_ == 0; }

  // The next one in turn; not if empty.
  Channel next() {
    looked_at_ = (looked_at_ + 1) % (added_ < kRemembered ? added_ : kRemembered);
    return channels_[looked_at_];
  }

 private:
  std::array<Channel, kRemembered> channels_{};
  std::size_t added_ = 0;
  std::size_t looked_at_ = 0;
};

}  // namespace sparcl::transport
