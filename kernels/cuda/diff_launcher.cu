#include "kernels/cuda/diff_tile.cuh"
#include "kernels/cuda/launchers.hpp"

namespace sparcl::kernels::cuda {
namespace {

template <class Word>
__global__ void __launch_bounds__(kThreads, kResident) diff_kernel(DiffWork work) {
  __shared__ DiffShared shared;
  diff_tile<Word>(shared, work);
}

}  // namespace

cudaError_t launch_diff(const DiffWork& work, std::size_t element_bytes, cudaStream_t stream) {
  const auto tiles = static_cast<unsigned>(tile_count(work.count));
  switch (element_bytes) {
    case 1:
      diff_kernel<std::uint8_t><<<tiles, kThreads, 0, stream>>>(work);
      break;
    case 2:
      diff_kernel<std::uint16_t><<<tiles, kThreads, 0, stream>>>(work);
      break;
    case 4:
      diff_kernel<std::uint32_t><<<tiles, kThreads, 0, stream>>>(work);
      break;
    case 8:
      diff_kernel<std::uint64_t><<<tiles, kThreads, 0, stream>>>(work);
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

}  // namespace sparcl::kernels::cuda
