#include "kernels/cuda/decode_block.cuh"
#include "kernels/cuda/launchers.hpp"

namespace sparcl::kernels::cuda {
namespace {

template <class Word>
__global__ void __launch_bounds__(kThreads, kResident) decode_kernel(DecodeWork work) {
  __shared__ DecodeShared shared;
  decode_block<Word>(shared, work);
}

}  // namespace

cudaError_t launch_decode(const DecodeWork& work, std::size_t element_bytes, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(block_count(work.count));
  switch (element_bytes) {
    case 1:
      decode_kernel<std::uint8_t><<<blocks, kThreads, 0, stream>>>(work);
      break;
    case 2:
      decode_kernel<std::uint16_t><<<blocks, kThreads, 0, stream>>>(work);
      break;
    case 4:
      decode_kernel<std::uint32_t><<<blocks, kThreads, 0, stream>>>(work);
      break;
    case 8:
      decode_kernel<std::uint64_t><<<blocks, kThreads, 0, stream>>>(work);
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

}  // namespace sparcl::kernels::cuda
