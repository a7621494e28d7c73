#pragma once
// What blocking calls of a comm take of a GPU: memory there, pinned memory here, kept for the next one. A call waits for its stream
// before it is over, so the next finds them free.

#include <cstddef>

#include "kernels/device_kernel_set.hpp"
#include "src/base/device_stream.hpp"

namespace sparcl::collectives {

class DeviceScratch {
 public:
  explicit DeviceScratch(const kernels::DeviceKernelSet& kernels) : kernels_(kernels) {}

  const kernels::DeviceKernelSet& kernels() const { return kernels_; }
  void* context() const { return context_; }

  // The next call is on the GPU of this context. An error: kernels do not run there.
  Status enter(void* context);
  // So much, aligned to 256 bytes; good until more is asked for.
  Result<std::byte*> on_device(std::size_t bytes);
  Result<std::byte*> pinned(std::size_t bytes);
  // Both. what: it is for, as errors have it ("coding").
  struct Memory {
    std::byte* device;
    std::byte* pinned;
  };
  Result<Memory> both(std::size_t device_bytes, std::size_t pinned_bytes, const char* what);

  // Waits for what was enqueued on the stream, whatever comes of it: the memory is then the next call's.
  void settle(void* stream) const;

 private:
  const kernels::DeviceKernelSet& kernels_;
  void* context_ = nullptr;
  Status checked_;
  DeviceBuffer on_device_;
  PinnedBuffer pinned_;
};

}  // namespace sparcl::collectives
