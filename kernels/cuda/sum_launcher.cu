#include "kernels/cuda/sum_block.cuh"
#include "kernels/cuda/sum_launchers.hpp"
#include "kernels/cuda/with_type.cuh"

namespace sparcl::kernels::cuda {
namespace {

__global__ void __launch_bounds__(kThreads) check_lists_kernel(CheckWork work) {
  check_lists(work);
}

template <TopKType kSent>
__global__ void __launch_bounds__(kThreads) round_values_kernel(RoundWork work) {
  round_values<kSent>(work);
}

template <class Value>
__global__ void __launch_bounds__(kThreads) sum_rows_kernel(RowsWork work) {
  sum_rows<Value>(work);
}

template <class Value>
__global__ void __launch_bounds__(kThreads) leave_rest_kernel(RestWork work) {
  leave_rest<Value>(work);
}

template <TopKType kType>
__global__ void __launch_bounds__(kThreads) leave_mean_kernel(MeanWork work) {
  leave_mean<kType>(work);
}

template <TopKType kType>
__global__ void __launch_bounds__(kThreads) key_entries_kernel(KeepWork work) {
  key_entries<kType>(work);
}

template <class Value>
__global__ void __launch_bounds__(kThreads) take_entries_kernel(KeepWork work) {
  take_entries<Value>(work);
}

unsigned blocks_of(std::uint64_t entries) { return static_cast<unsigned>(entry_tiles(entries)); }

}  // namespace

cudaError_t launch_check_lists(const CheckWork& work, cudaStream_t stream) {
  check_lists_kernel<<<static_cast<unsigned>(work.lists.lists * work.list_tiles), kThreads, 0,
                       stream>>>(work);
  return cudaGetLastError();
}

cudaError_t launch_round_values(const RoundWork& work, TopKType sent, cudaStream_t stream) {
  return with_type(sent, [&](auto known) {
    round_values_kernel<decltype(known)::value>
        <<<blocks_of(work.count), kThreads, 0, stream>>>(work);
    return cudaGetLastError();
  });
}

cudaError_t launch_sum_rows(const RowsWork& work, TopKType type, cudaStream_t stream) {
  return with_type(type, [&](auto known) {
    using Value = typename Elements<decltype(known)::value>::Accumulator;
    sum_rows_kernel<Value><<<blocks_of(work.count), kThreads, 0, stream>>>(work);
    return cudaGetLastError();
  });
}

cudaError_t launch_leave_rest(const RestWork& work, TopKType type, cudaStream_t stream) {
  return with_type(type, [&](auto known) {
    using Value = typename Elements<decltype(known)::value>::Accumulator;
    leave_rest_kernel<Value><<<blocks_of(work.capacity), kThreads, 0, stream>>>(work);
    return cudaGetLastError();
  });
}

cudaError_t launch_leave_mean(const MeanWork& work, TopKType type, cudaStream_t stream) {
  return with_type(type, [&](auto known) {
    leave_mean_kernel<decltype(known)::value>
        <<<blocks_of(work.capacity), kThreads, 0, stream>>>(work);
    return cudaGetLastError();
  });
}

cudaError_t launch_key_entries(const KeepWork& work, TopKType type, cudaStream_t stream) {
  return with_type(type, [&](auto known) {
    key_entries_kernel<decltype(known)::value>
        <<<blocks_of(work.capacity), kThreads, 0, stream>>>(work);
    return cudaGetLastError();
  });
}

cudaError_t launch_take_entries(const KeepWork& work, TopKType type, cudaStream_t stream) {
  return with_type(type, [&](auto known) {
    using Value = typename Elements<decltype(known)::value>::Accumulator;
    take_entries_kernel<Value><<<blocks_of(work.k), kThreads, 0, stream>>>(work);
    return cudaGetLastError();
  });
}

}  // namespace sparcl::kernels::cuda
