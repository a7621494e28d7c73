#include "tests/fakes/nccl/emulated_kernels.hpp"
// After the emulation.
#include "tests/emulated/combine_types.hpp"

namespace sparcl::test {
namespace {

Status combine(const kernels::DeviceRows& rows, DataType type, kernels::ReduceOp op, bool is_mean,
               void* result, void* stream) {
  if (rows.ranks == 0 || rows.ranks > kernels::kMaxCombinedRows)
    return Status(Code::kInvalidArgument, "rows are combined");
  if (rows.count == 0) return Status();
  return launch_in(stream, [=] {
    kernels::DeviceRows here = rows;
    here.first = reachable(rows.first);
    const kernels::cuda::CombineWork work{here, is_mean ? rows.ranks : 1, reachable(result)};
    const std::lock_guard lock(grid_mutex());
    emulated::launch<CombineLevels>(
        combine_blocks_of(rows.count, type), kernels::cuda::kThreads, 1,
        [&](CombineLevels& levels) { combine_columns_of(levels, work, type, op); });
  });
}

}  // namespace

kernels::CombineDeviceRowsKernel* emulated_combine_rows() { return combine; }

}  // namespace sparcl::test
