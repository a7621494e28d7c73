#include "kernels/cuda/few_bits_group.cuh"
#include "kernels/cuda/scaled_group.cuh"
#include "kernels/cuda/scaled_launchers.hpp"

namespace sparcl::kernels::cuda {
namespace {

__global__ void __launch_bounds__(kThreads) encode_scaled_kernel(ScaledWork work) {
  encode_scaled_group(work);
}
__global__ void __launch_bounds__(kThreads) decode_scaled_kernel(ScaledWork work) {
  decode_scaled_group(work);
}

template <unsigned kBits>
__global__ void __launch_bounds__(kThreads) round_groups_kernel(ScaledWork work) {
  round_group_to<kBits>(work);
}

}  // namespace

cudaError_t launch_encode_scaled(const ScaledWork& work, cudaStream_t stream) {
  encode_scaled_kernel<<<static_cast<unsigned>(scaled_blocks(work.capacity)), kThreads, 0,
                         stream>>>(work);
  return cudaGetLastError();
}

cudaError_t launch_decode_scaled(const ScaledWork& work, cudaStream_t stream) {
  decode_scaled_kernel<<<static_cast<unsigned>(scaled_blocks(work.capacity)), kThreads, 0,
                         stream>>>(work);
  return cudaGetLastError();
}

cudaError_t launch_round_groups(const ScaledWork& work, unsigned bits, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(scaled_blocks(work.capacity));
  if (bits == 4)
    round_groups_kernel<4><<<blocks, kThreads, 0, stream>>>(work);
  else
    round_groups_kernel<2><<<blocks, kThreads, 0, stream>>>(work);
  return cudaGetLastError();
}

}  // namespace sparcl::kernels::cuda
