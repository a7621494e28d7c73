#include "src/comm/device/fragment_memory.hpp"

namespace sparcl::comm {

Result<std::shared_ptr<FragmentMemory>> FragmentMemory::allocate(void* context) {
  auto made = std::make_shared<FragmentMemory>();
  SPARCL_ASSIGN_OR_RETURN(gpu::DeviceStream stream, gpu::DeviceStream::create(context));
  made->stream = std::move(stream);
  SPARCL_ASSIGN_OR_RETURN(gpu::DeviceBuffer device,
                          gpu::DeviceBuffer::allocate(context, kSlots * kSlotBytes));
  made->device = std::move(device);
  SPARCL_ASSIGN_OR_RETURN(gpu::PinnedBuffer host,
                          gpu::PinnedBuffer::allocate(context, kSlots * kSlotBytes));
  made->host = std::move(host);
  return made;
}

}  // namespace sparcl::comm
