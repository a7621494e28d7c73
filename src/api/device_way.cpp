#include "src/api/device_way.hpp"

#include <fmt/format.h>

#include "src/api/device_kernel_choice.hpp"
#include "src/base/device_memory.hpp"

namespace sparcl::api {

collectives::DeviceScratch* scratch_for_top_k(sparclComm& comm, const void* send, const void* receive, DataType type) {
  if (space_of(send) != MemorySpace::kDevice || space_of(receive) != MemorySpace::kDevice || !can_stage()) return nullptr;
  if (comm.device_scratch == nullptr) {
    const Result<const kernels::DeviceKernelSet*> kernels = device_kernels();
    if (!kernels.ok()) return nullptr;
    comm.device_scratch = std::make_unique<collectives::DeviceScratch>(**kernels);
  }
  if (!comm.device_scratch->kernels().top_k.supports(type)) return nullptr;
  const Result<void*> context = context_of(send), other = context_of(receive);
  if (!context.ok() || !other.ok() || *context != *other) return nullptr;
  return comm.device_scratch->enter(*context).ok() ? comm.device_scratch.get() : nullptr;
}

bool are_on_gpus(const sparclComm& comm, const void* send, const void* receive) {
  return comm.device != nullptr && space_of(send) == MemorySpace::kDevice && space_of(receive) == MemorySpace::kDevice;
}

Status check_gpu(const sparclComm& comm, const void* send, const void* receive) {
  for (const auto& [name, array] : {std::pair("sendbuff", send), std::pair("recvbuff", receive)}) {
    const Result<int> device = device_of(array);
    if (!device.ok()) return device.status().with_prefix(std::string(name) + ": ");
    if (*device != comm.device->gpu()) {
      return Status(Code::kInvalidArgument,
                    fmt::format("{} is in the memory of GPU {}, this communicator's is GPU {}", name, *device, comm.device->gpu()));
    }
  }
  return Status();
}

}  // namespace sparcl::api
