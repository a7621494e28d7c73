#include "kernels/cuda/encode_block.cuh"
#include "kernels/cuda/launchers.hpp"

namespace sparcl::kernels::cuda {
namespace {

template <class Word>
__global__ void __launch_bounds__(kThreads, kResident) encode_kernel(EncodeWork work) {
  __shared__ EncodeShared shared;
  encode_block<Word>(shared, work);
}

}  // namespace

cudaError_t launch_encode(const EncodeWork& work, std::size_t element_bytes, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(block_count(work.count));
  switch (element_bytes) {
    case 1:
      encode_kernel<std::uint8_t><<<blocks, kThreads, 0, stream>>>(work);
      break;
    case 2:
      encode_kernel<std::uint16_t><<<blocks, kThreads, 0, stream>>>(work);
      break;
    case 4:
      encode_kernel<std::uint32_t><<<blocks, kThreads, 0, stream>>>(work);
      break;
    case 8:
      encode_kernel<std::uint64_t><<<blocks, kThreads, 0, stream>>>(work);
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

}  // namespace sparcl::kernels::cuda
