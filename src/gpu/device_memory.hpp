#pragma once
// Memory of GPUs, as far as code on the host needs it: whose a pointer is, and copies in a stream's
// order. By the CUDA driver that the process itself has loaded; where it has none, all memory is
// the host's. Nothing of CUDA is needed to build this.

#include <cstddef>

#include "src/base/memory_space.hpp"
#include "src/base/status.hpp"

namespace sparcl::gpu {

// kDevice: the host must not touch it. Memory that both reach (pinned, managed) is the host's.
MemorySpace space_of(const void* pointer);

// Copies between device memory and the host's, behind what the stream (a CUstream; nullptr: the
// default one) holds, and waits for it. One of the two is device memory.
Status copy_device_memory(void* to, const void* from, std::size_t bytes, void* stream);

}  // namespace sparcl::gpu
