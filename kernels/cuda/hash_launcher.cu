#include "kernels/cuda/hash_block.cuh"
#include "kernels/cuda/hash_launcher.hpp"

namespace sparcl::kernels::cuda {
namespace {

template <class Word>
__global__ void __launch_bounds__(kThreads, kResident) hash_kernel(HashWork work) {
  __shared__ HashShared shared;
  hash_block<Word>(shared, work);
}

}  // namespace

cudaError_t launch_hash(const HashWork& work, std::size_t element_bytes, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(hashed_blocks(work.count, work.place));
  switch (element_bytes) {
    case 1:
      hash_kernel<std::uint8_t><<<blocks, kThreads, 0, stream>>>(work);
      break;
    case 2:
      hash_kernel<std::uint16_t><<<blocks, kThreads, 0, stream>>>(work);
      break;
    case 4:
      hash_kernel<std::uint32_t><<<blocks, kThreads, 0, stream>>>(work);
      break;
    case 8:
      hash_kernel<std::uint64_t><<<blocks, kThreads, 0, stream>>>(work);
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

}  // namespace sparcl::kernels::cuda
