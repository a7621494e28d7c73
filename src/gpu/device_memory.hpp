#pragma once
// GPU memory as host code needs it: the owner of a pointer, and copies in a stream's order. It uses
// the CUDA driver that the process has loaded; without one, all memory is the host's. The build
// needs no CUDA.

#include <cstddef>

#include "src/base/memory_space.hpp"
#include "src/base/status.hpp"

namespace sparcl::gpu {

// kDevice: the host must not touch it. Memory that both reach (pinned, managed) is the host's.
MemorySpace space_of(const void* pointer);

// Copies between device memory and host memory, after the work enqueued in the stream (a CUstream;
// nullptr: the default one), and waits for it. One of the two is device memory.
Status copy_device_memory(void* to, const void* from, std::size_t bytes, void* stream);

}  // namespace sparcl::gpu
