#include "tests/fakes/nccl/emulated_kernels.hpp"
// After the emulation.
#include "kernels/cuda/few_bits_group.cuh"
#include "kernels/cuda/scaled_group.cuh"
#include "kernels/cuda/sum_block.cuh"

namespace sparcl::test {
namespace {

using namespace kernels::cuda;  // NOLINT: the routines
using kernels::DeviceEntries;

template <class Routine>
void run_tiles(std::uint64_t count, DataType type, const Routine& routine) {
  if (count == 0) return;
  const std::lock_guard lock(grid_mutex());
  with_kind(type, [&](auto kind) {
    emulated::launch<NoShared>(static_cast<unsigned>(entry_tiles(count)), kThreads, 1,
                               [&](NoShared&) { routine(kind); });
  });
}

Status check(const kernels::DeviceLists& lists, std::uint64_t elements, void* stream) {
  return launch_in(stream, [=] {
    kernels::DeviceLists here = lists;
    here.bytes = reachable(lists.bytes);
    const CheckWork work{here, elements, std::max<std::uint64_t>(entry_tiles(lists.capacity), 1)};
    const std::lock_guard lock(grid_mutex());
    emulated::launch<NoShared>(static_cast<unsigned>(lists.lists * work.list_tiles), kThreads, 1,
                               [&](NoShared&) { check_lists(work); });
  });
}

Status round(const void* values, std::uint64_t count, DataType sent, void* rounded, void* stream) {
  return launch_in(stream, [=] {
    const RoundWork work{reachable(values), reachable(rounded), count};
    run_tiles(count, sent, [&](auto kind) { round_values<decltype(kind)::value>(work); });
  });
}

Status sum(void* rows, std::uint32_t ranks, std::uint64_t count, DataType type, void* stream) {
  return launch_in(stream, [=] {
    const RowsWork work{reachable(rows), ranks, count};
    run_tiles(count, type, [&](auto kind) {
      sum_rows<typename Elements<decltype(kind)::value>::Accumulator>(work);
    });
  });
}

Status leave(const DeviceEntries& entries, std::uint64_t capacity, const void* seen_values,
             const DeviceEntries* kept, std::uint64_t kept_capacity, DataType type, void* residual,
             void* stream) {
  const DeviceEntries in = kept != nullptr ? *kept : DeviceEntries{};
  return launch_in(stream, [=] {
    const RestWork work{seen_entries(entries), capacity,      reachable(seen_values),
                        seen_entries(in),      kept_capacity, reachable(residual)};
    run_tiles(capacity, type, [&](auto kind) {
      leave_rest<typename Elements<decltype(kind)::value>::Accumulator>(work);
    });
  });
}

Status leave_mean_of(const DeviceEntries& entries, std::uint64_t capacity, std::uint32_t divisor,
                     std::uint32_t ranks, DataType type, void* residual, void* stream) {
  return launch_in(stream, [=] {
    const MeanWork work{seen_entries(entries), capacity, divisor, ranks, reachable(residual)};
    run_tiles(capacity, type, [&](auto kind) { leave_mean<decltype(kind)::value>(work); });
  });
}

std::size_t keys_bytes(std::uint64_t capacity) { return (capacity * 8 + 15) / 16 * 16; }

std::size_t keep_workspace_bytes(std::uint64_t capacity, std::uint64_t k) {
  return keys_bytes(capacity) + emulated_top_k().workspace_bytes(capacity, k, DataType::kUint64);
}

Status keep(const DeviceEntries& list, std::uint64_t capacity, std::uint64_t k,
            const DeviceEntries& kept, DataType type, void* workspace, std::size_t bytes,
            void* stream) {
  if (bytes < keep_workspace_bytes(capacity, k))
    return Status(Code::kInvalidArgument, "the largest of a list: the workspace");
  auto* const keys = static_cast<std::uint64_t*>(workspace);
  const auto now = [=] {
    return KeepWork{seen_entries(list), capacity, seen(keys), seen_entries(kept), k};
  };
  SPARCL_RETURN_IF_ERROR(launch_in(stream, [=] {
    run_tiles(capacity, type, [&](auto kind) { key_entries<decltype(kind)::value>(now()); });
  }));
  kernels::TopK places{};
  places.values = keys;
  places.count = capacity;
  places.k = k;
  places.indices = kept.indices;
  places.found = kept.count;
  SPARCL_RETURN_IF_ERROR(emulated_top_k().run(
      places, DataType::kUint64, static_cast<std::byte*>(workspace) + keys_bytes(capacity),
      bytes - keys_bytes(capacity), stream));
  return launch_in(stream, [=] {
    run_tiles(k, type, [&](auto kind) {
      take_entries<typename Elements<decltype(kind)::value>::Accumulator>(now());
    });
  });
}

Status encode(const float* values, const std::uint64_t* count, std::uint64_t capacity,
              const kernels::DeviceScaledValues& scaled, float* rounded, void* stream) {
  return launch_in(stream, [=] {
    const kernels::DeviceScaledValues here{seen(scaled.codes), seen(scaled.exponents),
                                           seen(scaled.exact), scaled.exact_capacity,
                                           seen(scaled.exact_count)};
    *here.exact_count = 0;
    if (capacity == 0) return;
    const ScaledWork work{here, seen(count), capacity, seen(values), seen(rounded)};
    const std::lock_guard lock(grid_mutex());
    emulated::launch<NoShared>(static_cast<unsigned>(scaled_blocks(capacity)), kThreads, 1,
                               [&](NoShared&) { encode_scaled_group(work); });
  });
}

Status round_few(const float* values, const std::uint64_t* count, std::uint64_t capacity,
                 unsigned bits, float* rounded, void* stream) {
  return launch_in(stream, [=] {
    if (capacity == 0) return;
    const ScaledWork work{{}, seen(count), capacity, seen(values), seen(rounded)};
    const std::lock_guard lock(grid_mutex());
    emulated::launch<NoShared>(
        static_cast<unsigned>(scaled_blocks(capacity)), kThreads, 1,
        [&](NoShared&) { bits == 4 ? round_group_to<4>(work) : round_group_to<2>(work); });
  });
}

}  // namespace

kernels::EncodeScaledKernel* emulated_encode_scaled() { return encode; }
kernels::RoundGroupsKernel* emulated_round_groups() { return round_few; }

kernels::DeviceSumKernels emulated_sums() {
  return {check, round, sum, leave, leave_mean_of, keep, keep_workspace_bytes};
}

}  // namespace sparcl::test
