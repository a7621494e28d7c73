#pragma once
// Memory that a stream may still use after its call has ended, because the stream is stuck in a
// kernel enqueued before the call.

#include <memory>
#include <optional>
#include <vector>

#include "src/gpu/device_stream.hpp"

namespace sparcl::device {

class LeftMemory {
 public:
  LeftMemory() = default;
  // Waits at most some seconds. Memory that is still in use then is never freed.
  ~LeftMemory();
  LeftMemory(const LeftMemory&) = delete;
  LeftMemory& operator=(const LeftMemory&) = delete;

  // Makes the next add() free of allocations.
  void make_room();
  // The memory is in use until `end` is over; nullopt: until an unknown time. other: memory of
  // other owners, or nullptr.
  void add(gpu::DeviceBuffer on_device, gpu::PinnedBuffer pinned, std::shared_ptr<const void> other,
           std::optional<gpu::DeviceEvent> end);
  // Frees unused memory. Freeing may wait for all of a GPU's streams, so it frees all or nothing.
  // True: nothing is left.
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
