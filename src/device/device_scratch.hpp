#pragma once
// The device memory and pinned memory of a comm's blocking calls, kept for the next call on the
// same GPU. A call that ends before its stream's work is done leaves the memory behind, and the
// next call allocates new memory.

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/device_kernel_set.hpp"
#include "src/device/left_memory.hpp"
#include "src/gpu/device_stream.hpp"

namespace sparcl::device {

class DeviceScratch {
 public:
  explicit DeviceScratch(const kernels::DeviceKernelSet& kernels) : kernels_(kernels) {}

  const kernels::DeviceKernelSet& kernels() const { return kernels_; }
  void* context() const { return here_->context; }

  // Selects the GPU of this context for the next call. Call it first. An error: kernels do not run
  // there.
  Status enter(void* context);
  // Memory of this size, aligned to 256 bytes; valid until more is requested.
  Result<std::byte*> on_device(std::size_t bytes);
  Result<std::byte*> pinned(std::size_t bytes);
  // Both kinds of memory. what: its purpose, for errors ("coding").
  struct Memory {
    std::byte* device;
    std::byte* pinned;
  };
  Result<Memory> both(std::size_t device_bytes, std::size_t pinned_bytes, const char* what);

  // From now on the stream may use the memory. The use ends when the stream's work is done and
  // is_free() returns true. other: additional memory that the stream uses and whose owner may
  // release it meanwhile.
  void begin_use(void* stream, std::shared_ptr<const void> other = nullptr);
  bool is_free();
  // The stream's work is done since the use began.
  void has_been_waited_for();
  // The stream may be destroyed from now on.
  void end_use();

 private:
  struct Place {
    void* context;
    Status checked;
    gpu::DeviceBuffer on_device;
    gpu::PinnedBuffer pinned;
    bool is_used = false;
    void* stream = nullptr;
    std::shared_ptr<const void> other;
    std::optional<gpu::DeviceEvent> end;  // of the use
    LeftMemory left;
  };
  Place& place_of(void* context);
  bool is_idle_now();

  const kernels::DeviceKernelSet& kernels_;
  std::vector<std::unique_ptr<Place>> places_;  // one for each context that calls have used
  Place* here_ = nullptr;
};

}  // namespace sparcl::device
