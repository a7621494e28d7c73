#pragma once
// Copies of large arrays between device memory and the host's: in chunks through pinned memory, of
// which one is filled or emptied here while the other is under way. (Of memory that is not pinned
// the driver does one after the other.)

#include <cstddef>

#include "src/gpu/device_stream.hpp"

namespace sparcl::gpu {

// Its memory is kept for the next copy: one thread at a time.
class PinnedCopies {
 public:
  // As copy_device_memory() (device_memory.hpp): behind what the stream holds, and over when it
  // returns.
  Status to_host(void* host, const void* device, std::size_t bytes, void* stream);
  Status to_device(void* device, const void* host, std::size_t bytes, void* stream);

 private:
  // A context to be in; none: the copy is to go without pinned memory.
  Result<void*> prepare(const void* device, std::size_t bytes, void* stream);

  PinnedBuffer memory_;
};

}  // namespace sparcl::gpu
