#pragma once
// The kernels on arrays in device memory. Each call enqueues on the stream, allocates nothing and
// does not wait. All pointers are device memory of the stream's device. Workspaces are aligned to
// 16 bytes and may be reused when the stream's work is done. Arrays are aligned to their elements;
// full speed takes 16 bytes. Every result is bit-identical to that of kernels/ref.

#include <cuda_runtime_api.h>

#include "kernels/cuda/device_work.hpp"
#include "kernels/device_select.hpp"
#include "kernels/mask_access.hpp"
#include "src/base/data_type.hpp"
#include "src/base/status.hpp"

namespace sparcl::kernels::cuda {

struct Workspace {
  void* bytes = nullptr;
  std::size_t count = 0;
};

// Whether kernels run on this thread's GPU: the driver supports this CUDA version, and there is
// code for the GPU's architecture.
Status check_device();

std::size_t diff_workspace_bytes(std::uint64_t count);

// Where base and target differ, bit for bit (-0 differs from +0, a NaN equals itself), in one pass
// over both. The first `capacity` changes are written; block_starts tells how many there are.
Status diff(const void* base, const void* target, std::uint64_t count, std::size_t element_bytes,
            const DeviceChanges& changes, std::uint64_t capacity, const Workspace& workspace,
            cudaStream_t stream);

// Writes the new values if every change's old value equals the array's; otherwise writes none.
// *refused (device memory): the number of changes that do not match. hashes: of block_count(count)
// blocks, over the old and new values of their changed positions; nullptr: not wanted. Positions
// are trusted: they come from a decoder, or from diff.
Status apply(const DeviceChanges& changes, void* array, std::uint64_t count,
             std::size_t element_bytes, DeviceChangeHashes* hashes, std::uint64_t* refused,
             cudaStream_t stream);

using kernels::TopK;

bool top_k_supports(DataType type);
std::size_t top_k_workspace_bytes(std::uint64_t count, std::uint64_t k, DataType type);

// As in kernels/device_select.hpp.
Status top_k(const TopK& call, DataType type, const Workspace& workspace, cudaStream_t stream);

// As in kernels/mask_access.hpp; the positions are in device memory, too.
MaskGatherKernel gather_mask;
MaskScatterKernel scatter_mask;

}  // namespace sparcl::kernels::cuda
