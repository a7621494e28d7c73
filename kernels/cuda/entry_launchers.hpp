#pragma once
// The launches on sparse entries, as launchers.hpp has the others.

#include <cuda_runtime_api.h>

#include "kernels/cuda/entry_work.hpp"

namespace sparcl::kernels::cuda {

// Splits and states need not be zeros. Of work.out.values nullptr, indices alone.
cudaError_t launch_merge(const MergeWork& work, TopKType type, cudaStream_t stream);

// The capacity is not 0. gather: the type is that of the array.
cudaError_t launch_scatter_entries(const EntryWork& work, TopKType type, cudaStream_t stream);
cudaError_t launch_gather_entries(const EntryWork& work, TopKType type, cudaStream_t stream);

}  // namespace sparcl::kernels::cuda
