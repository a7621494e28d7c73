#pragma once
// Copies large arrays between device memory and host memory, in chunks through pinned memory. The
// host fills or empties one chunk while another is in flight. (For memory that is not pinned, the
// driver does not overlap the two.)

#include <cstddef>

#include "src/gpu/device_stream.hpp"

namespace sparcl::gpu {

// Keeps its memory for the next copy. One thread at a time.
class PinnedCopies {
 public:
  // As copy_device_memory() (device_memory.hpp): after the stream's current work, and done when it
  // returns.
  Status to_host(void* host, const void* device, std::size_t bytes, void* stream);
  Status to_device(void* device, const void* host, std::size_t bytes, void* stream);

 private:
  // A context to enter; nullptr: the copy must do without pinned memory.
  Result<void*> prepare(const void* device, std::size_t bytes, void* stream);

  PinnedBuffer memory_;
};

}  // namespace sparcl::gpu
