#include "tests/fakes/nccl/emulated_kernels.hpp"
// After the emulation.
#include "kernels/cuda/top_k_cut.cuh"
#include "kernels/kernel_set.hpp"

namespace sparcl::test {
namespace {

using namespace kernels::cuda;  // NOLINT: the routines

constexpr std::size_t kStateBytes = (sizeof(TopKState) + 15) / 16 * 16;

std::uint64_t candidate_capacity(std::uint64_t count, std::uint64_t k) {
  return std::min(count, 2 * std::min(k, count) + 1000);
}

bool supports(DataType type) {
  return kernels::reference_kernels().accumulate_of(type).accumulate != nullptr;
}

std::size_t workspace_bytes(std::uint64_t count, std::uint64_t k, DataType) {
  return kStateBytes + (kSamples + top_k_states(count) + 2 * candidate_capacity(count, k)) * 8;
}

// The launches of launch_top_k(); samples only where they are looked at.
template <TopKType kType>
void launch_all(const TopKWork& work) {
  static std::uint64_t seed = 0;
  const auto tiles = static_cast<unsigned>(tile_count(work.count));
  if (work.count > kSamples)
    emulated::launch<NoShared>(1, kThreads, ++seed, [&](NoShared&) { sample_keys<kType>(work); });
  emulated::launch<GuessShared>(1, kThreads, ++seed,
                                [&](GuessShared& shared) { guess_threshold<kType>(shared, work); });
  emulated::launch<CompactionShared>(tiles, kThreads, ++seed, [&](CompactionShared& shared) {
    take_candidates<kType>(shared, work);
  });
  emulated::launch<NoShared>(1, kThreads, ++seed, [&](NoShared&) { begin_select(work); });
  for (int shift = 8 * static_cast<int>(sizeof(typename Elements<kType>::Accumulator)) - 8;
       shift >= 0; shift -= 8) {
    emulated::launch<DigitShared>(1, kThreads, ++seed, [&](DigitShared& shared) {
      count_digits<kType>(shared, work, shift);
    });
    emulated::launch<ChooseShared>(
        1, kThreads, ++seed, [&](ChooseShared& shared) { choose_digit(shared, work, shift); });
  }
  emulated::launch<CutShared>(3, kThreads, ++seed,
                              [&](CutShared& shared) { cut<kType>(shared, work); });
}

// As the CUDA glue has it.
void run_now(const kernels::TopK& call, DataType type, void* workspace) {
  auto* const bytes = static_cast<std::byte*>(reachable(workspace));
  std::uint64_t* const found = seen(call.found);
  *found = 0;
  if (call.count == 0) return;
  const std::uint64_t states_count = top_k_states(call.count),
                      capacity = candidate_capacity(call.count, call.k);
  auto* const words = reinterpret_cast<std::uint64_t*>(bytes + kStateBytes);
  std::uint64_t* const states = words + kSamples;
  std::memset(bytes, 0, kStateBytes);
  std::memset(states, 0, states_count * sizeof(TileState));
  const TopKWork work{reachable(call.values),
                      reachable(call.residual),
                      call.count,
                      std::min(call.k, call.count),
                      call.clear_sent,
                      seen(call.indices),
                      reachable(call.taken),
                      found,
                      reinterpret_cast<TopKState*>(bytes),
                      words,
                      states,
                      capacity,
                      states + states_count,
                      states + states_count + capacity};
  const std::lock_guard lock(grid_mutex());
  with_kind(type, [&](auto kind) { launch_all<decltype(kind)::value>(work); });
}

Status run(const kernels::TopK& call, DataType type, void* workspace, std::size_t bytes,
           void* stream) {
  if (bytes < workspace_bytes(call.count, call.k, type))
    return Status(Code::kInvalidArgument, "top-k: the workspace");
  return launch_in(stream, [=] { run_now(call, type, workspace); });
}

}  // namespace

kernels::TopKKernels emulated_top_k() { return {supports, workspace_bytes, run}; }

}  // namespace sparcl::test
