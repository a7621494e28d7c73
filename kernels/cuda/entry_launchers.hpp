#pragma once
// The launches on sparse entries, like the other launches in launchers.hpp.

#include <cuda_runtime_api.h>

#include "kernels/cuda/entry_work.hpp"

namespace sparcl::kernels::cuda {

// Splits and states need not be zeros. If work.out.values is nullptr, only indices are merged.
cudaError_t launch_merge(const MergeWork& work, TopKType type, cudaStream_t stream);

// The capacity is not 0. gather: the type is the array's.
cudaError_t launch_scatter_entries(const EntryWork& work, TopKType type, cudaStream_t stream);
cudaError_t launch_gather_entries(const EntryWork& work, TopKType type, cudaStream_t stream);

}  // namespace sparcl::kernels::cuda
