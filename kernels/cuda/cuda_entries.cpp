#include "kernels/cuda/cuda_entries.hpp"

#include <fmt/format.h>

#include "kernels/accumulate.hpp"
#include "kernels/cuda/cuda_status.hpp"
#include "kernels/cuda/device_checks.hpp"
#include "kernels/cuda/element_type.hpp"
#include "kernels/cuda/entry_launchers.hpp"

namespace sparcl::kernels::cuda {
namespace {

constexpr std::uint64_t kMaxBlocks = 0x7fffffff;  // of a launch

Status check_entries(const char* call, std::uint64_t capacity, std::uint64_t most) {
  if (capacity <= most) return Status();
  return Status(
      Code::kInvalidArgument,
      fmt::format("CUDA: {} of {} entries: at most {} are taken at a time", call, capacity, most));
}

Status check_values(const DeviceEntries& a, const DeviceEntries& b, const DeviceEntries& out) {
  const bool has_values = out.values != nullptr;
  if ((a.values != nullptr) == has_values && (b.values != nullptr) == has_values) return Status();
  return Status(
      Code::kInvalidArgument,
      "CUDA: merge: the values of both lists and of the result are all given, or none is");
}

}  // namespace

std::size_t merge_workspace_bytes(std::uint64_t capacity_a, std::uint64_t capacity_b) {
  const std::uint64_t tiles = merge_tiles(capacity_a + capacity_b);
  return (tiles + 1) * sizeof(MergeSplit) +
         (tiles + 1) * sizeof(TileState);  // and the next tile's number
}

Status merge_entries(const DeviceEntries& a, std::uint64_t capacity_a, const DeviceEntries& b,
                     std::uint64_t capacity_b, const DeviceEntries& out, DataType type,
                     void* workspace, std::size_t workspace_bytes, void* stream) {
  constexpr std::uint64_t kMost = kMaxBlocks * kMergeTile / 2;
  SPARCL_RETURN_IF_ERROR(check_entries("merge", capacity_a, kMost));
  SPARCL_RETURN_IF_ERROR(check_entries("merge", capacity_b, kMost));
  SPARCL_RETURN_IF_ERROR(check_sizes("merge", 0, 8, merge_workspace_bytes(capacity_a, capacity_b),
                                     {workspace, workspace_bytes}));
  SPARCL_RETURN_IF_ERROR(check_values(a, b, out));
  SPARCL_ASSIGN_OR_RETURN(const TopKType kind, accumulated_type("merge", type));
  const std::uint64_t tiles = merge_tiles(capacity_a + capacity_b);
  auto* const splits = static_cast<MergeSplit*>(workspace);
  auto* const states = reinterpret_cast<TileState*>(splits + tiles + 1);
  const MergeWork work{
      a,          b,      out,    capacity_a,
      capacity_b, splits, states, reinterpret_cast<std::uint32_t*>(states + tiles)};
  return status_of(launch_merge(work, kind, static_cast<cudaStream_t>(stream)), "merge");
}

Status scatter_entries(const DeviceEntries& entries, std::uint64_t capacity, std::uint32_t divisor,
                       void* array, DataType type, void* stream) {
  SPARCL_RETURN_IF_ERROR(check_entries("scatter", capacity, kMaxBlocks * kEntryTile));
  if (divisor == 0) return Status(Code::kInvalidArgument, "CUDA: scatter: a mean's divisor is 0");
  SPARCL_ASSIGN_OR_RETURN(const TopKType kind, accumulated_type("scatter", type));
  if (capacity == 0) return Status();
  const EntryWork work{entries, capacity, array, divisor};
  return status_of(launch_scatter_entries(work, kind, static_cast<cudaStream_t>(stream)),
                   "scatter");
}

Status gather_entries(const void* array, bool is_accumulated, DataType type,
                      const DeviceEntries& entries, std::uint64_t capacity, void* stream) {
  SPARCL_RETURN_IF_ERROR(check_entries("gather", capacity, kMaxBlocks * kEntryTile));
  SPARCL_ASSIGN_OR_RETURN(
      const TopKType kind,
      accumulated_type("gather", is_accumulated ? accumulator_type(type) : type));
  if (capacity == 0) return Status();
  const EntryWork work{entries, capacity, const_cast<void*>(array), 1};
  return status_of(launch_gather_entries(work, kind, static_cast<cudaStream_t>(stream)), "gather");
}

}  // namespace sparcl::kernels::cuda
