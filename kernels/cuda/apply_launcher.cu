#include "kernels/cuda/change_list.cuh"
#include "kernels/cuda/launchers.hpp"

namespace sparcl::kernels::cuda {
namespace {

template <class Word>
__global__ void __launch_bounds__(kThreads) check_kernel(ApplyWork work) {
  check_old_values<Word>(work);
}

template <class Word>
__global__ void __launch_bounds__(kThreads) apply_kernel(ApplyWork work) {
  __shared__ ApplyShared shared;
  apply_changes<Word>(shared, work);
}

}  // namespace

cudaError_t launch_check(const ApplyWork& work, std::size_t element_bytes, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(block_count(work.count));
  switch (element_bytes) {
    case 1:
      check_kernel<std::uint8_t><<<blocks, kThreads, 0, stream>>>(work);
      break;
    case 2:
      check_kernel<std::uint16_t><<<blocks, kThreads, 0, stream>>>(work);
      break;
    case 4:
      check_kernel<std::uint32_t><<<blocks, kThreads, 0, stream>>>(work);
      break;
    case 8:
      check_kernel<std::uint64_t><<<blocks, kThreads, 0, stream>>>(work);
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

cudaError_t launch_apply(const ApplyWork& work, std::size_t element_bytes, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(block_count(work.count));
  switch (element_bytes) {
    case 1:
      apply_kernel<std::uint8_t><<<blocks, kThreads, 0, stream>>>(work);
      break;
    case 2:
      apply_kernel<std::uint16_t><<<blocks, kThreads, 0, stream>>>(work);
      break;
    case 4:
      apply_kernel<std::uint32_t><<<blocks, kThreads, 0, stream>>>(work);
      break;
    case 8:
      apply_kernel<std::uint64_t><<<blocks, kThreads, 0, stream>>>(work);
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

}  // namespace sparcl::kernels::cuda
