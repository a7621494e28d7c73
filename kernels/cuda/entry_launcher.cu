#include "kernels/cuda/entry_block.cuh"
#include "kernels/cuda/entry_launchers.hpp"
#include "kernels/cuda/with_type.cuh"

namespace sparcl::kernels::cuda {
namespace {

template <TopKType kType>
__global__ void __launch_bounds__(kThreads) scatter_entries_kernel(EntryWork work) {
  scatter_entries<kType>(work);
}

template <TopKType kType>
__global__ void __launch_bounds__(kThreads) gather_entries_kernel(EntryWork work) {
  gather_entries<kType>(work);
}

}  // namespace

cudaError_t launch_scatter_entries(const EntryWork& work, TopKType type, cudaStream_t stream) {
  return with_type(type, [&](auto known) {
    scatter_entries_kernel<decltype(known)::value>
        <<<static_cast<unsigned>(entry_tiles(work.capacity)), kThreads, 0, stream>>>(work);
    return cudaGetLastError();
  });
}

cudaError_t launch_gather_entries(const EntryWork& work, TopKType type, cudaStream_t stream) {
  return with_type(type, [&](auto known) {
    gather_entries_kernel<decltype(known)::value>
        <<<static_cast<unsigned>(entry_tiles(work.capacity)), kThreads, 0, stream>>>(work);
    return cudaGetLastError();
  });
}

}  // namespace sparcl::kernels::cuda
