// Which calls of the comm select on a GPU.
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

}  // namespace sparcl::api
