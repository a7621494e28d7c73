#pragma once
// The launches for blocks of classes, like the other launches in launchers.hpp.

#include <cuda_runtime_api.h>

#include "kernels/cuda/class_work.hpp"

namespace sparcl::kernels::cuda {

// The array is not empty; the workspace's states and next_block are zeros.
cudaError_t launch_decode_classes(const ClassDecodeWork& work, cudaStream_t stream);

// There are superblocks; the workspace's states and next_super are zeros, and so is *classes_end.
cudaError_t launch_encode_classes(const ClassEncodeWork& work, cudaStream_t stream);

// There are chunks.
cudaError_t launch_sample_classes(const ClassSampleWork& work, cudaStream_t stream);

}  // namespace sparcl::kernels::cuda
