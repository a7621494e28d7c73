#include "src/comm/device/fragment_memory.hpp"

namespace sparcl::comm {

Result<std::shared_ptr<FragmentMemory>> FragmentMemory::allocate(void* context) {
  auto made = std::make_shared<FragmentMemory>();
  Result<gpu::DeviceStream> stream = gpu::DeviceStream::create(context);
  if (!stream.ok()) return stream.status();
  made->stream = std::move(*stream);
  Result<gpu::DeviceBuffer> device = gpu::DeviceBuffer::allocate(context, kSlots * kSlotBytes);
  if (!device.ok()) return device.status();
  made->device = std::move(*device);
  Result<gpu::PinnedBuffer> host = gpu::PinnedBuffer::allocate(context, kSlots * kSlotBytes);
  if (!host.ok()) return host.status();
  made->host = std::move(*host);
  return made;
}

}  // namespace sparcl::comm
