#pragma once
// What blocking calls of a comm take of a GPU: memory there, pinned memory here, kept for the next
// one on that GPU. A call that ends before its stream is through leaves it behind, and the next
// takes other memory.

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

  // The next call is on the GPU of this context: before anything else. An error: kernels do not run
  // there.
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

  // From now on the stream may use the memory, until it is through with what is in it at is_free(),
  // which then is true. other: memory beside it that the stream uses, whose owner may go meanwhile.
  void begin_use(void* stream, std::shared_ptr<const void> other = nullptr);
  bool is_free();
  // The stream has been waited for since.
  void has_been_waited_for();
  // The stream may be gone from now on.
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
  std::vector<std::unique_ptr<Place>> places_;  // that calls have been at
  Place* here_ = nullptr;
};

}  // namespace sparcl::device
