#include "kernels/cuda/entry_launchers.hpp"
#include "kernels/cuda/merge_tile.cuh"

namespace sparcl::kernels::cuda {
namespace {

__global__ void __launch_bounds__(kThreads) split_kernel(MergeWork work) { split_merge(work); }

template <class Value>
__global__ void __launch_bounds__(kThreads) merge_kernel(MergeWork work) {
  __shared__ MergeShared<Value> shared;
  merge_tile(shared, work);
}

template <class Value>
cudaError_t launch(const MergeWork& work, cudaStream_t stream) {
  const std::uint64_t tiles = merge_tiles(work.capacity_a + work.capacity_b);
  split_kernel<<<static_cast<unsigned>(tiles / kThreads + 1), kThreads, 0, stream>>>(work);
  merge_kernel<Value><<<static_cast<unsigned>(tiles), kThreads, 0, stream>>>(work);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_merge(const MergeWork& work, TopKType type, cudaStream_t stream) {
  if (work.out.values == nullptr) return launch<NoValue>(work, stream);
  switch (type) {
    case TopKType::kFloat64:
      return launch<double>(work, stream);
    case TopKType::kInt32:
    case TopKType::kUint32:
      return launch<std::uint32_t>(work, stream);
    case TopKType::kInt64:
    case TopKType::kUint64:
      return launch<std::uint64_t>(work, stream);
    default:
      return launch<float>(work, stream);
  }
}

}  // namespace sparcl::kernels::cuda
