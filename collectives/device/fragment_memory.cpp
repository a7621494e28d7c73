#include "collectives/device/fragment_memory.hpp"

namespace sparcl::collectives {

Result<std::shared_ptr<FragmentMemory>> FragmentMemory::allocate(void* context) {
  auto made = std::make_shared<FragmentMemory>();
  Result<DeviceStream> stream = DeviceStream::create(context);
  if (!stream.ok()) return stream.status();
  made->stream = std::move(*stream);
  Result<DeviceBuffer> device = DeviceBuffer::allocate(context, kSlots * kSlotBytes);
  if (!device.ok()) return device.status();
  made->device = std::move(*device);
  Result<PinnedBuffer> host = PinnedBuffer::allocate(context, kSlots * kSlotBytes);
  if (!host.ok()) return host.status();
  made->host = std::move(*host);
  return made;
}

}  // namespace sparcl::collectives
