#pragma once
// Memory that a stream may still use when its call has ended, as the stream is stuck: a kernel
// before the call's own does not end.

#include <memory>
#include <optional>
#include <vector>

#include "src/gpu/device_stream.hpp"

namespace sparcl::device {

class LeftMemory {
 public:
  LeftMemory() = default;
  // Waits some seconds at most. What is then still used stays for good.
  ~LeftMemory();
  LeftMemory(const LeftMemory&) = delete;
  LeftMemory& operator=(const LeftMemory&) = delete;

  // So that the next add() allocates nothing.
  void make_room();
  // It is used until `end` is over; nothing: nobody knows until when. other: memory of others, or
  // nullptr.
  void add(gpu::DeviceBuffer on_device, gpu::PinnedBuffer pinned, std::shared_ptr<const void> other,
           std::optional<gpu::DeviceEvent> end);
  // Gives back what nobody uses any more. As freeing may wait for all of a GPU's streams: all or
  // nothing. True: nothing is left.
  bool free_if_over();

 private:
  struct Left {
    gpu::DeviceBuffer on_device;
    gpu::PinnedBuffer pinned;
    std::shared_ptr<const void> other;
    std::optional<gpu::DeviceEvent> end;
  };
  std::unique_ptr<std::vector<Left>> left_;  // nullptr: nothing
};

}  // namespace sparcl::device
