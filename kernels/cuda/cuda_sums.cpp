#include "kernels/cuda/cuda_sums.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/cuda/cuda_status.hpp"
#include "kernels/cuda/device_kernels.hpp"
#include "kernels/cuda/element_type.hpp"
#include "kernels/cuda/sum_launchers.hpp"

namespace sparcl::kernels::cuda {
namespace {

constexpr std::uint64_t kMaxBlocks = 0x7fffffff,
                        kMaxEntries = kMaxBlocks * kEntryTile;  // of a launch

Result<TopKType> check(const char* call, std::uint64_t count, DataType type) {
  if (count > kMaxEntries) {
    return Status(Code::kInvalidArgument,
                  fmt::format("CUDA: {} of {} elements: at most {} are taken at a time", call,
                              count, kMaxEntries));
  }
  return accumulated_type(call, type);
}

std::size_t keys_bytes(std::uint64_t capacity) {
  return (capacity * sizeof(std::uint64_t) + 15) / 16 * 16;
}

}  // namespace

Status check_lists(const DeviceLists& lists, std::uint64_t elements, void* stream) {
  const CheckWork work{lists, elements, std::max<std::uint64_t>(entry_tiles(lists.capacity), 1)};
  if (lists.lists == 0) return Status();
  if (work.list_tiles > kMaxBlocks / lists.lists) {
    return Status(Code::kInvalidArgument,
                  fmt::format("CUDA: a check of {} lists of {} entries: so many fit no launch",
                              lists.lists, lists.capacity));
  }
  return status_of(launch_check_lists(work, static_cast<cudaStream_t>(stream)), "a check of lists");
}

Status round_values(const void* values, std::uint64_t count, DataType sent, void* rounded,
                    void* stream) {
  SPARCL_ASSIGN_OR_RETURN(const TopKType kind, check("rounding", count, sent));
  if (count == 0) return Status();
  return status_of(
      launch_round_values({values, rounded, count}, kind, static_cast<cudaStream_t>(stream)),
      "rounding");
}

Status sum_rows(void* rows, std::uint32_t ranks, std::uint64_t count, DataType type, void* stream) {
  SPARCL_ASSIGN_OR_RETURN(const TopKType kind, check("a sum of rows", count, type));
  if (count == 0) return Status();
  return status_of(launch_sum_rows({rows, ranks, count}, kind, static_cast<cudaStream_t>(stream)),
                   "a sum of rows");
}

Status leave_rest(const DeviceEntries& entries, std::uint64_t capacity, const void* seen,
                  const DeviceEntries* kept, std::uint64_t kept_capacity, DataType type,
                  void* residual, void* stream) {
  SPARCL_ASSIGN_OR_RETURN(const TopKType kind, check("a residual's rest", capacity, type));
  if (capacity == 0) return Status();
  const RestWork work{entries,       capacity, seen, kept != nullptr ? *kept : DeviceEntries{},
                      kept_capacity, residual};
  return status_of(launch_leave_rest(work, kind, static_cast<cudaStream_t>(stream)),
                   "a residual's rest");
}

Status leave_mean(const DeviceEntries& entries, std::uint64_t capacity, std::uint32_t divisor,
                  std::uint32_t ranks, DataType type, void* residual, void* stream) {
  SPARCL_ASSIGN_OR_RETURN(const TopKType kind, check("a mean's rest", capacity, type));
  if (capacity == 0) return Status();
  const MeanWork work{entries, capacity, divisor, ranks, residual};
  return status_of(launch_leave_mean(work, kind, static_cast<cudaStream_t>(stream)),
                   "a mean's rest");
}

std::size_t keep_largest_workspace_bytes(std::uint64_t capacity, std::uint64_t k) {
  return keys_bytes(capacity) + top_k_workspace_bytes(capacity, k, DataType::kUint64);
}

Status keep_largest(const DeviceEntries& list, std::uint64_t capacity, std::uint64_t k,
                    const DeviceEntries& kept, DataType type, void* workspace,
                    std::size_t workspace_bytes, void* stream) {
  SPARCL_ASSIGN_OR_RETURN(const TopKType kind,
                          check("the largest of a list", std::max(capacity, k), type));
  if (type == DataType::kUint64)
    return Status(Code::kUnsupported, "CUDA: the largest of a list of uint64");
  if (workspace_bytes < keep_largest_workspace_bytes(capacity, k)) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("CUDA: the largest of a list: the workspace has {} bytes, {} are needed",
                    workspace_bytes, keep_largest_workspace_bytes(capacity, k)));
  }
  auto* const keys = static_cast<std::uint64_t*>(workspace);
  std::byte* const rest = static_cast<std::byte*>(workspace) + keys_bytes(capacity);
  const KeepWork work{list, capacity, keys, kept, k};
  auto* const own = static_cast<cudaStream_t>(stream);
  if (capacity > 0)
    SPARCL_RETURN_IF_ERROR(status_of(launch_key_entries(work, kind, own), "the largest of a list"));
  TopK places{};
  places.values = keys;
  places.count = capacity;
  places.k = k;
  places.indices = kept.indices;
  places.found = kept.count;
  SPARCL_RETURN_IF_ERROR(
      top_k(places, DataType::kUint64, {rest, workspace_bytes - keys_bytes(capacity)}, own));
  if (k == 0) return Status();
  return status_of(launch_take_entries(work, kind, own), "the largest of a list");
}

}  // namespace sparcl::kernels::cuda
