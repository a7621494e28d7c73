#include "src/gpu/device_memory.hpp"

#include "src/gpu/device_driver.hpp"
#include "src/gpu/device_stream.hpp"

namespace sparcl::gpu {

using driver::as_device;

MemorySpace space_of(const void* pointer) {
  const driver::Functions* const cuda = pointer != nullptr ? driver::loaded() : nullptr;
  if (cuda == nullptr) return MemorySpace::kHost;
  unsigned type = 0;
  int is_managed = 0;
  // For memory that it does not know, the driver returns "invalid value".
  if (cuda->pointer_attribute(&type, driver::kMemoryTypeOfPointer, as_device(pointer)) != 0 ||
      type != driver::kTypeDevice)
    return MemorySpace::kHost;
  if (cuda->pointer_attribute(&is_managed, driver::kIsManaged, as_device(pointer)) == 0 &&
      is_managed != 0)
    return MemorySpace::kHost;
  return MemorySpace::kDevice;
}

Status copy_device_memory(void* to, const void* from, std::size_t bytes, void* stream) {
  const driver::Functions* const cuda = driver::loaded();
  if (cuda == nullptr)
    return Status(Code::kUnhandledCudaError, "CUDA: this process has loaded no driver");
  SPARCL_ASSIGN_OR_RETURN(void* const context,
                          context_for(space_of(to) == MemorySpace::kDevice ? to : from, stream));
  // Any thread may call, also one without a context.
  const DeviceScope inside(context);
  SPARCL_RETURN_IF_ERROR(inside.status());
  SPARCL_RETURN_IF_ERROR(driver::status_of(
      *cuda, cuda->copy(as_device(to), as_device(from), bytes, stream), "a copy of device memory"));
  return driver::status_of(*cuda, cuda->synchronize(stream), "waiting for a stream");
}

}  // namespace sparcl::gpu
