#pragma once
// Memory and a stream on a communicator's GPU for streams that NCCL carries: slots of device
// memory, each with pinned memory.

#include <array>
#include <cstdint>
#include <memory>

#include "src/gpu/device_stream.hpp"

namespace sparcl::comm {

struct FragmentMemory {
  static constexpr std::size_t kSlots =
      2;  // one is filled or emptied here while the other is under way
  static constexpr std::size_t kSlotBytes = (std::size_t{4} << 20) + 256;

  static Result<std::shared_ptr<FragmentMemory>> allocate(void* context);

  // The slot of fragment i.
  std::byte* pinned(std::uint64_t i) const { return host.data() + i % kSlots * kSlotBytes; }
  std::byte* on_device(std::uint64_t i) const {
    return static_cast<std::byte*>(device.data()) + i % kSlots * kSlotBytes;
  }
  gpu::DeviceEvent& last_use(std::uint64_t i) { return last_uses[i % kSlots]; }

  gpu::DeviceStream stream;
  gpu::DeviceBuffer device;
  gpu::PinnedBuffer host;
  std::array<gpu::DeviceEvent, kSlots> last_uses;
};

}  // namespace sparcl::comm
