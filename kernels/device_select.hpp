#pragma once
// Contract of exact top-k on an array in device memory, with or without error feedback. Each call
// enqueues on a stream, allocates nothing and waits for nothing; how many it finds is known on the
// device alone. Nothing of CUDA is needed to include this.

#include <cstddef>
#include <cstdint>

#include "src/base/data_type.hpp"
#include "src/base/status.hpp"

namespace sparcl::kernels {

// All pointers are device memory.
struct TopK {
  const void* values;
  void* residual =
      nullptr;  // accumulators (kernels/accumulate.hpp), on return acc; nullptr: no error feedback
  std::uint64_t count = 0;
  std::uint64_t k = 0;
  bool clear_sent = false;  // taken elements leave the residual
  std::uint64_t* indices;   // room for k, ascending
  void* taken = nullptr;    // their accumulators, room for k; nullptr: none wanted
  std::uint64_t* found;     // one number: min(k, elements that are not 0)
};

// Those that have accumulators.
using TopKSupportsType = bool(DataType type);
// The workspace is aligned to 16 bytes, and free again once the stream is through.
using TopKWorkspaceBytes = std::size_t(std::uint64_t count, std::uint64_t k, DataType type);
// The exact k largest |acc|, NaN > infinity > finite, ties to the lower index
// (src/sparse/selection), bit for bit.
using TopKKernel = Status(const TopK& call, DataType type, void* workspace,
                          std::size_t workspace_bytes, void* stream);

struct TopKKernels {
  TopKSupportsType* supports = nullptr;
  TopKWorkspaceBytes* workspace_bytes = nullptr;
  TopKKernel* run = nullptr;
};

}  // namespace sparcl::kernels
