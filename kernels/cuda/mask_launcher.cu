#include "kernels/cuda/launchers.hpp"
#include "kernels/cuda/mask_block.cuh"

namespace sparcl::kernels::cuda {
namespace {

template <class Word>
__global__ void __launch_bounds__(kThreads) gather_mask_kernel(MaskWork work) {
  gather_mask_block<Word>(work);
}

template <class Word>
__global__ void __launch_bounds__(kThreads) scatter_mask_kernel(MaskWork work) {
  scatter_mask_block<Word>(work);
}

}  // namespace

cudaError_t find_kernels() {
  cudaFuncAttributes found{};
  const cudaError_t error = cudaFuncGetAttributes(&found, scatter_mask_kernel<std::uint64_t>);
  if (error != cudaSuccess) (void)cudaGetLastError();  // otherwise the next launch would report it
  return error;
}

cudaError_t launch_gather_mask(const MaskWork& work, std::size_t element_bytes,
                               cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(mask_blocks(work.places));
  switch (element_bytes) {
    case 1:
      gather_mask_kernel<std::uint8_t><<<blocks, kThreads, 0, stream>>>(work);
      break;
    case 2:
      gather_mask_kernel<std::uint16_t><<<blocks, kThreads, 0, stream>>>(work);
      break;
    case 4:
      gather_mask_kernel<std::uint32_t><<<blocks, kThreads, 0, stream>>>(work);
      break;
    case 8:
      gather_mask_kernel<std::uint64_t><<<blocks, kThreads, 0, stream>>>(work);
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

cudaError_t launch_scatter_mask(const MaskWork& work, std::size_t element_bytes,
                                cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(mask_blocks(work.places));
  switch (element_bytes) {
    case 1:
      scatter_mask_kernel<std::uint8_t><<<blocks, kThreads, 0, stream>>>(work);
      break;
    case 2:
      scatter_mask_kernel<std::uint16_t><<<blocks, kThreads, 0, stream>>>(work);
      break;
    case 4:
      scatter_mask_kernel<std::uint32_t><<<blocks, kThreads, 0, stream>>>(work);
      break;
    case 8:
      scatter_mask_kernel<std::uint64_t><<<blocks, kThreads, 0, stream>>>(work);
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

}  // namespace sparcl::kernels::cuda
