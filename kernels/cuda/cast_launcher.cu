#include "kernels/cuda/cast_launcher.hpp"
#include "kernels/cuda/cast_tile.cuh"

namespace sparcl::kernels::cuda {
namespace {

template <class Small, class Word>
__global__ void __launch_bounds__(kThreads, 4) cast_kernel(CastWork work) {
  cast_tile<Small, Word>(work);
}

}  // namespace

cudaError_t launch_cast(const CastWork& work, DataType type, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(cast_tiles(work.count));
  switch (type) {
    case DataType::kFloat16:
      cast_kernel<Float16, std::uint16_t><<<blocks, kThreads, 0, stream>>>(work);
      break;
    case DataType::kBfloat16:
      cast_kernel<Bfloat16, std::uint16_t><<<blocks, kThreads, 0, stream>>>(work);
      break;
    case DataType::kFloat8e4m3:
      cast_kernel<Float8e4m3, std::uint8_t><<<blocks, kThreads, 0, stream>>>(work);
      break;
    case DataType::kFloat8e5m2:
      cast_kernel<Float8e5m2, std::uint8_t><<<blocks, kThreads, 0, stream>>>(work);
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

}  // namespace sparcl::kernels::cuda
