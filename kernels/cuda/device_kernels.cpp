#include "kernels/cuda/device_kernels.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/cuda/block_codec.hpp"
#include "kernels/cuda/cuda_combine.hpp"
#include "kernels/cuda/cuda_entries.hpp"
#include "kernels/cuda/cuda_kernel_set.hpp"
#include "kernels/cuda/cuda_scaled.hpp"
#include "kernels/cuda/cuda_status.hpp"
#include "kernels/cuda/cuda_sums.hpp"
#include "kernels/cuda/device_checks.hpp"
#include "kernels/cuda/element_type.hpp"
#include "kernels/cuda/launchers.hpp"

namespace sparcl::kernels::cuda {
namespace {

Status check_mask(const char* call, const MaskPlaces& places, std::size_t element_bytes) {
  SPARCL_RETURN_IF_ERROR(check_sizes(call, 0, element_bytes, 0, {}));
  constexpr std::uint64_t kMaxBlocks = 0x7fffffff;
  if (mask_blocks(places) <= kMaxBlocks) return Status();
  return Status(Code::kInvalidArgument,
                fmt::format("CUDA: {} of {} elements: a mask of so many blocks fits no launch",
                            call, places.count));
}

// Twice the expected number of elements that reach the guess. If more reach it, all elements are
// examined.
std::uint64_t candidate_capacity(std::uint64_t count, std::uint64_t k) {
  return std::min(count, 2 * std::min(k, count) + 4 * kTileElements);
}

// The workspace of top-k: a state, samples, states of tiles, candidates.
constexpr std::size_t kStateBytes = (sizeof(TopKState) + 15) / 16 * 16;

}  // namespace

std::size_t diff_workspace_bytes(std::uint64_t count) {
  return (tile_count(count) + 1) * sizeof(TileState);
}

Status diff(const void* base, const void* target, std::uint64_t count, std::size_t element_bytes,
            const DeviceChanges& changes, std::uint64_t capacity, const Workspace& workspace,
            cudaStream_t stream) {
  const std::size_t bytes = diff_workspace_bytes(count);
  SPARCL_RETURN_IF_ERROR(check_sizes("diff", count, element_bytes, bytes, workspace));
  if (count == 0)
    return status_of(cudaMemsetAsync(changes.block_starts, 0, sizeof(std::uint64_t), stream),
                     "diff");
  SPARCL_RETURN_IF_ERROR(status_of(cudaMemsetAsync(workspace.bytes, 0, bytes, stream),
                                   "diff: clearing its workspace"));
  auto* const words = static_cast<TileState*>(workspace.bytes);
  const DiffWork work{
      base, target, count, capacity, changes, words + 1, reinterpret_cast<std::uint32_t*>(words)};
  return status_of(launch_diff(work, element_bytes, stream), "diff");
}

Status apply(const DeviceChanges& changes, void* array, std::uint64_t count,
             std::size_t element_bytes, DeviceChangeHashes* hashes, std::uint64_t* refused,
             cudaStream_t stream) {
  SPARCL_RETURN_IF_ERROR(check_sizes("apply", count, element_bytes, 0, {}));
  SPARCL_RETURN_IF_ERROR(status_of(cudaMemsetAsync(refused, 0, sizeof *refused, stream), "apply"));
  if (count == 0) return Status();
  const ApplyWork work{changes, count, array, hashes, refused};
  SPARCL_RETURN_IF_ERROR(
      status_of(launch_check(work, element_bytes, stream), "apply: checking the old values"));
  return status_of(launch_apply(work, element_bytes, stream), "apply");
}

bool top_k_supports(DataType type) { return top_k_type(type).has_value(); }

std::size_t top_k_workspace_bytes(std::uint64_t count, std::uint64_t k, DataType) {
  return kStateBytes + (kSamples + top_k_states(count) + 2 * candidate_capacity(count, k)) *
                           sizeof(std::uint64_t);
}

Status top_k(const TopK& call, DataType type, const Workspace& workspace, cudaStream_t stream) {
  const std::size_t bytes = top_k_workspace_bytes(call.count, call.k, type);
  SPARCL_RETURN_IF_ERROR(check_sizes("top-k", call.count, element_bytes(type), bytes, workspace));
  if (call.count > kMaxTopKElements) {
    return Status(Code::kInvalidArgument,
                  fmt::format("CUDA: top-k of {} elements: at most {} are taken at a time",
                              call.count, kMaxTopKElements));
  }
  const Result<TopKType> kind = accumulated_type("top-k", type);
  if (!kind.ok()) return kind.status();
  SPARCL_RETURN_IF_ERROR(
      status_of(cudaMemsetAsync(call.found, 0, sizeof *call.found, stream), "top-k"));
  if (call.count == 0) return Status();
  const std::uint64_t states_count = top_k_states(call.count),
                      capacity = candidate_capacity(call.count, call.k);
  auto* const words =
      reinterpret_cast<std::uint64_t*>(static_cast<std::byte*>(workspace.bytes) + kStateBytes);
  std::uint64_t* const states = words + kSamples;
  SPARCL_RETURN_IF_ERROR(status_of(cudaMemsetAsync(workspace.bytes, 0, kStateBytes, stream),
                                   "top-k: clearing its workspace"));
  SPARCL_RETURN_IF_ERROR(
      status_of(cudaMemsetAsync(states, 0, states_count * sizeof(TileState), stream),
                "top-k: clearing its workspace"));
  const TopKWork work{call.values,
                      call.residual,
                      call.count,
                      std::min(call.k, call.count),
                      call.clear_sent,
                      call.indices,
                      call.taken,
                      call.found,
                      static_cast<TopKState*>(workspace.bytes),
                      words,
                      states,
                      capacity,
                      states + states_count,
                      states + states_count + capacity};
  return status_of(launch_top_k(work, kind.value(), stream), "top-k");
}

Status gather_mask(const MaskPlaces& places, const void* array, std::size_t element_bytes,
                   void* packed, void* stream) {
  SPARCL_RETURN_IF_ERROR(check_mask("gather", places, element_bytes));
  if (places.count == 0) return Status();
  const MaskWork work{places, const_cast<void*>(array), packed};
  return status_of(launch_gather_mask(work, element_bytes, static_cast<cudaStream_t>(stream)),
                   "gather");
}

Status scatter_mask(const MaskPlaces& places, const void* packed, std::size_t element_bytes,
                    void* array, void* stream) {
  SPARCL_RETURN_IF_ERROR(check_mask("scatter", places, element_bytes));
  if (places.count == 0) return Status();
  const MaskWork work{places, array, const_cast<void*>(packed)};
  return status_of(launch_scatter_mask(work, element_bytes, static_cast<cudaStream_t>(stream)),
                   "scatter");
}

Status check_device() {
  const cudaError_t error = find_kernels();
  if (error == cudaErrorInsufficientDriver) {
    return Status(
        Code::kUnsupported,
        fmt::format("CUDA: this GPU's driver is older than CUDA {}.{}, which sparcl was built with",
                    CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10));
  }
  if (error == cudaErrorNoKernelImageForDevice)
    return Status(
        Code::kUnsupported,
        "CUDA: sparcl's kernels are for GPUs of compute capability 8.0 and later: this is none");
  return status_of(error, "kernels of sparcl's on this GPU");
}

namespace {

Status top_k_in_table(const TopK& call, DataType type, void* workspace, std::size_t workspace_bytes,
                      void* stream) {
  return top_k(call, type, {workspace, workspace_bytes}, static_cast<cudaStream_t>(stream));
}

}  // namespace

const DeviceKernelSet& cuda_kernels() {
  static const DeviceKernelSet kSet{
      "cuda",
      check_device,
      gather_mask,
      scatter_mask,
      {top_k_supports, top_k_workspace_bytes, top_k_in_table},
      {merge_entries, merge_workspace_bytes, scatter_entries, gather_entries},
      {check_lists, round_values, sum_rows, leave_rest, leave_mean, keep_largest,
       keep_largest_workspace_bytes},
      encode_scaled,
      round_groups,
      block_kernels(),
      combine_rows};
  return kSet;
}

}  // namespace sparcl::kernels::cuda
