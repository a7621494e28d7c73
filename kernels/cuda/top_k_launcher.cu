#include "kernels/cuda/launchers.hpp"
#include "kernels/cuda/top_k_cut.cuh"
#include "kernels/cuda/with_type.cuh"

namespace sparcl::kernels::cuda {
namespace {

template <TopKType kType>
__global__ void __launch_bounds__(kThreads) sample_kernel(TopKWork work) {
  sample_keys<kType>(work);
}

template <TopKType kType>
__global__ void __launch_bounds__(kThreads, 1) guess_kernel(TopKWork work) {
  __shared__ GuessShared shared;
  guess_threshold<kType>(shared, work);
}

template <TopKType kType>
__global__ void __launch_bounds__(kThreads, kResident) candidates_kernel(TopKWork work) {
  __shared__ CompactionShared shared;
  take_candidates<kType>(shared, work);
}

__global__ void __launch_bounds__(kThreads) begin_kernel(TopKWork work) { begin_select(work); }

template <TopKType kType>
__global__ void __launch_bounds__(kThreads) count_kernel(TopKWork work, int shift) {
  __shared__ DigitShared shared;
  count_digits<kType>(shared, work, shift);
}

__global__ void __launch_bounds__(kThreads) choose_kernel(TopKWork work, int shift) {
  __shared__ ChooseShared shared;
  choose_digit(shared, work, shift);
}

template <TopKType kType>
__global__ void __launch_bounds__(kThreads, kResident) cut_kernel(TopKWork work) {
  __shared__ CutShared shared;
  cut<kType>(shared, work);
}

// Heuristic: enough blocks to fill a device, each with enough work if all elements are examined.
unsigned blocks_for(std::uint64_t tiles) {
  return static_cast<unsigned>(tiles < 1024 ? tiles : 1024);
}

template <TopKType kType>
cudaError_t launch(const TopKWork& work, cudaStream_t stream) {
  const auto tiles = static_cast<unsigned>(tile_count(work.count));
  sample_kernel<kType><<<kSamples / kThreads, kThreads, 0, stream>>>(work);
  guess_kernel<kType><<<1, kThreads, 0, stream>>>(work);
  candidates_kernel<kType><<<tiles, kThreads, 0, stream>>>(work);
  begin_kernel<<<1, kThreads, 0, stream>>>(work);
  for (int shift = 8 * static_cast<int>(sizeof(typename Elements<kType>::Accumulator)) - 8;
       shift >= 0; shift -= 8) {
    count_kernel<kType><<<blocks_for(tiles), kThreads, 0, stream>>>(work, shift);
    choose_kernel<<<1, kThreads, 0, stream>>>(work, shift);
  }
  cut_kernel<kType><<<blocks_for(cut_tiles(work.count)), kThreads, 0, stream>>>(work);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_top_k(const TopKWork& work, TopKType type, cudaStream_t stream) {
  return with_type(type, [&](auto known) { return launch<decltype(known)::value>(work, stream); });
}

}  // namespace sparcl::kernels::cuda
