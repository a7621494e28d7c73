#include "kernels/cuda/cuda_combine.hpp"

#include <fmt/format.h>

#include "kernels/cuda/combine_launcher.hpp"
#include "kernels/cuda/cuda_status.hpp"

namespace sparcl::kernels::cuda {

Status combine_rows(const DeviceRows& rows, DataType type, ReduceOp op, bool is_mean, void* result,
                    void* stream) {
  constexpr std::uint64_t kMaxElements =
      std::uint64_t{0x7fffffff} * combine_items(8) * kThreads;  // of a launch
  if (rows.ranks == 0 || rows.ranks > kMaxCombinedRows || rows.count > kMaxElements) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("CUDA: {} rows of {} elements: 1 to {} rows of at most {} are combined",
                    rows.ranks, rows.count, kMaxCombinedRows, kMaxElements));
  }
  if (rows.count == 0) return Status();
  const CombineWork work{rows, is_mean ? rows.ranks : 1, result};
  return status_of(launch_combine(work, type, op, static_cast<cudaStream_t>(stream)),
                   "rows are combined");
}

}  // namespace sparcl::kernels::cuda
