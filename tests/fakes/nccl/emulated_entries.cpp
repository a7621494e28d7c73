#include "tests/fakes/nccl/emulated_kernels.hpp"
// After the emulation.
#include "kernels/accumulate.hpp"
#include "kernels/cuda/merge_tile.cuh"

namespace sparcl::test {
namespace {

using namespace kernels::cuda;  // NOLINT: the routines
using kernels::DeviceEntries;

std::size_t workspace_bytes(std::uint64_t capacity_a, std::uint64_t capacity_b) {
  const std::uint64_t tiles = merge_tiles(capacity_a + capacity_b);
  return (tiles + 1) * (sizeof(MergeSplit) + sizeof(TileState));
}

template <class Value>
void launch_merge(const MergeWork& work) {
  static std::uint64_t seed = 0;
  const auto tiles = static_cast<unsigned>(merge_tiles(work.capacity_a + work.capacity_b));
  emulated::launch<NoShared>(tiles / kThreads + 1, kThreads, ++seed,
                             [&](NoShared&) { split_merge(work); });
  emulated::launch<MergeShared<Value>>(
      tiles, kThreads, ++seed, [&](MergeShared<Value>& shared) { merge_tile(shared, work); });
}

Status merge(const DeviceEntries& a, std::uint64_t capacity_a, const DeviceEntries& b,
             std::uint64_t capacity_b, const DeviceEntries& out, DataType type, void* workspace,
             std::size_t bytes, void* stream) {
  if (bytes < workspace_bytes(capacity_a, capacity_b))
    return Status(Code::kInvalidArgument, "merge: the workspace");
  return launch_in(stream, [=] {
    const std::uint64_t tiles = merge_tiles(capacity_a + capacity_b);
    auto* const splits = static_cast<MergeSplit*>(reachable(workspace));
    auto* const states = reinterpret_cast<TileState*>(splits + tiles + 1);
    const MergeWork work{seen_entries(a),
                         seen_entries(b),
                         seen_entries(out),
                         capacity_a,
                         capacity_b,
                         splits,
                         states,
                         reinterpret_cast<std::uint32_t*>(states + tiles)};
    const std::lock_guard lock(grid_mutex());
    if (out.values == nullptr) return launch_merge<NoValue>(work);
    with_kind(type, [&](auto kind) {
      launch_merge<typename Elements<decltype(kind)::value>::Accumulator>(work);
    });
  });
}

template <class Routine>
void run_entries(const EntryWork& work, DataType type, const Routine& routine) {
  if (work.capacity == 0) return;
  const std::lock_guard lock(grid_mutex());
  with_kind(type, [&](auto kind) {
    emulated::launch<NoShared>(static_cast<unsigned>(entry_tiles(work.capacity)), kThreads, 1,
                               [&](NoShared&) { routine(kind, work); });
  });
}

Status scatter(const DeviceEntries& entries, std::uint64_t capacity, std::uint32_t divisor,
               void* array, DataType type, void* stream) {
  return launch_in(stream, [=] {
    run_entries(
        {seen_entries(entries), capacity, reachable(array), divisor}, type,
        [](auto kind, const EntryWork& work) { scatter_entries<decltype(kind)::value>(work); });
  });
}

Status gather(const void* array, bool is_accumulated, DataType type, const DeviceEntries& entries,
              std::uint64_t capacity, void* stream) {
  return launch_in(stream, [=] {
    run_entries(
        {seen_entries(entries), capacity, reachable(array), 1},
        is_accumulated ? kernels::accumulator_type(type) : type,
        [](auto kind, const EntryWork& work) { gather_entries<decltype(kind)::value>(work); });
  });
}

}  // namespace

kernels::DeviceEntryKernels emulated_entries() { return {merge, workspace_bytes, scatter, gather}; }

}  // namespace sparcl::test
