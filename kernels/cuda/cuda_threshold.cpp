#include "kernels/cuda/cuda_threshold.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/accumulate.hpp"
#include "kernels/cuda/cuda_status.hpp"
#include "kernels/cuda/device_checks.hpp"
#include "kernels/cuda/element_type.hpp"
#include "kernels/cuda/threshold_launchers.hpp"

namespace sparcl::kernels::cuda {
namespace {

// A workspace: a word that is the next tile's number, then a state a tile. All are zeros then.
Status clear(const char* call, std::uint64_t count, const Workspace& workspace,
             cudaStream_t stream) {
  return status_of(
      cudaMemsetAsync(workspace.bytes, 0, (tile_count(count) + 1) * sizeof(TileState), stream),
      call);
}
TileState* states_of(const Workspace& workspace) {
  return static_cast<TileState*>(workspace.bytes) + 1;
}
std::uint32_t* next_tile_of(const Workspace& workspace) {
  return static_cast<std::uint32_t*>(workspace.bytes);
}

}  // namespace

std::uint64_t min_key(DataType type, double threshold) {
  const DataType accumulator = accumulator_type(type);
  const double size = std::fabs(threshold);
  if (accumulator == DataType::kFloat64)
    return std::max<std::uint64_t>(std::bit_cast<std::uint64_t>(size), 1);
  if (accumulator == DataType::kFloat32) {
    if (std::isnan(size))
      return std::bit_cast<std::uint32_t>(std::numeric_limits<float>::infinity()) + 1;
    auto least = static_cast<float>(size);
    if (static_cast<double>(least) < size)
      least = std::nextafter(least, std::numeric_limits<float>::infinity());
    return std::max<std::uint64_t>(std::bit_cast<std::uint32_t>(least), 1);
  }
  const double whole = std::ceil(size);  // 2^64 is a double, the largest key is not
  if (!(whole < std::ldexp(1.0, 64))) return std::numeric_limits<std::uint64_t>::max();
  return std::max<std::uint64_t>(static_cast<std::uint64_t>(whole), 1);
}

std::size_t take_large_workspace_bytes(std::uint64_t count) {
  return (tile_count(count) + 1) * sizeof(TileState);
}

Status take_large(const TakeLarge& call, DataType type, const Workspace& workspace,
                  cudaStream_t stream) {
  SPARCL_RETURN_IF_ERROR(check_sizes("threshold", call.count, element_bytes(type),
                                     take_large_workspace_bytes(call.count), workspace));
  const Result<TopKType> kind = accumulated_type("threshold", type);
  if (!kind.ok()) return kind.status();
  if (call.count == 0)
    return status_of(cudaMemsetAsync(call.found, 0, sizeof *call.found, stream), "threshold");
  SPARCL_RETURN_IF_ERROR(clear("threshold: clearing its workspace", call.count, workspace, stream));
  const LargeWork work{call.values,
                       call.residual,
                       call.count,
                       std::max<std::uint64_t>(call.least, 1),
                       call.clear_sent,
                       call.capacity,
                       call.indices,
                       call.taken,
                       call.found,
                       states_of(workspace),
                       next_tile_of(workspace)};
  return status_of(launch_take_large(work, kind.value(), stream), "threshold");
}

Status diff_large(const void* base, const void* target, std::uint64_t count, DataType type,
                  double threshold, const DeviceChanges& changes, std::uint64_t capacity,
                  const Workspace& workspace, cudaStream_t stream) {
  SPARCL_RETURN_IF_ERROR(check_sizes("diff above a threshold", count, element_bytes(type),
                                     diff_workspace_bytes(count), workspace));
  if (!(threshold >= 0)) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("CUDA: diff above a threshold of {}: it must be 0 or more", threshold));
  }
  if (count == 0)
    return status_of(cudaMemsetAsync(changes.block_starts, 0, sizeof(std::uint64_t), stream),
                     "diff");
  SPARCL_RETURN_IF_ERROR(
      clear("diff above a threshold: clearing its workspace", count, workspace, stream));
  const DiffWork diff{
      base, target, count, capacity, changes, states_of(workspace), next_tile_of(workspace)};
  return status_of(launch_large_diff({diff, threshold}, type, stream), "diff above a threshold");
}

}  // namespace sparcl::kernels::cuda
