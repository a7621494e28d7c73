#pragma once
// The launches on sums over ranks, like the other launches in launchers.hpp. Counts and capacities
// are not 0.

#include <cuda_runtime_api.h>

#include "kernels/cuda/sum_work.hpp"

namespace sparcl::kernels::cuda {

cudaError_t launch_check_lists(const CheckWork& work, cudaStream_t stream);
cudaError_t launch_round_values(const RoundWork& work, TopKType sent, cudaStream_t stream);
cudaError_t launch_sum_rows(const RowsWork& work, TopKType type, cudaStream_t stream);
cudaError_t launch_leave_rest(const RestWork& work, TopKType type, cudaStream_t stream);
cudaError_t launch_leave_mean(const MeanWork& work, TopKType type, cudaStream_t stream);
cudaError_t launch_key_entries(const KeepWork& work, TopKType type, cudaStream_t stream);
cudaError_t launch_take_entries(const KeepWork& work, TopKType type, cudaStream_t stream);

}  // namespace sparcl::kernels::cuda
