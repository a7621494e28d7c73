// The device kernels of this test's library: the block routines that run on GPUs, emulated on the host, in their streams' order.

#include <mutex>

#include "tests/cuda/emulated_cuda.hpp"
// After the emulation.
#include "kernels/cuda/mask_block.cuh"
#include "kernels/cuda/top_k_steps.cuh"
#include "src/api/device_kernel_choice.hpp"
#include "tests/device/fake_driver.hpp"

namespace sparcl::test {
namespace {

using namespace kernels::cuda;  // NOLINT: the routines

struct NoShared {};

// Of all launches of this program: the emulation runs one grid at a time.
std::mutex& grid_mutex() {
  static std::mutex mutex;
  return mutex;
}

template <class T>
const T* seen(const T* pointer) {
  return static_cast<const T*>(reachable(pointer));
}

template <class Word>
void run(const MaskWork& work, bool gathers) {
  emulated::launch<NoShared>(static_cast<unsigned>(mask_blocks(work.places)), kThreads, 1, [&](NoShared&) {
    if (gathers)
      gather_mask_block<Word>(work);
    else
      scatter_mask_block<Word>(work);
  });
}

Status enqueue_mask(const kernels::MaskPlaces& places, const void* array, const void* packed, std::size_t element_bytes,
                    void* stream, bool gathers) {
  enqueue(stream, [=] {
    kernels::MaskPlaces here = places;
    here.parts = seen(places.parts);
    here.positions = seen(places.positions);
    here.runs = seen(places.runs);
    const MaskWork work{here, reachable(array), reachable(packed)};
    const std::lock_guard lock(grid_mutex());
    switch (element_bytes) {
      case 1:
        return run<std::uint8_t>(work, gathers);
      case 2:
        return run<std::uint16_t>(work, gathers);
      case 4:
        return run<std::uint32_t>(work, gathers);
      default:
        return run<std::uint64_t>(work, gathers);
    }
  });
  return Status();
}

Status gather(const kernels::MaskPlaces& places, const void* array, std::size_t element_bytes, void* packed, void* stream) {
  return enqueue_mask(places, array, packed, element_bytes, stream, true);
}

Status scatter(const kernels::MaskPlaces& places, const void* packed, std::size_t element_bytes, void* array, void* stream) {
  return enqueue_mask(places, array, packed, element_bytes, stream, false);
}

constexpr std::size_t kStateBytes = (sizeof(TopKState) + 15) / 16 * 16;

std::uint64_t candidate_capacity(std::uint64_t count, std::uint64_t k) { return std::min(count, 2 * k + 1000); }

std::size_t top_k_workspace_bytes(std::uint64_t count, std::uint64_t k, DataType) {
  return kStateBytes + (kSamples + 3 * tile_count(count) + 2 * candidate_capacity(count, std::min(k, count))) * 8;
}

// The launches of launch_top_k().
template <TopKType kType>
void run_top_k(const TopKWork& work) {
  static std::uint64_t seed = 0;
  const auto tiles = static_cast<unsigned>(tile_count(work.count));
  if (work.count > kSamples) emulated::launch<NoShared>(1, kThreads, ++seed, [&](NoShared&) { sample_keys<kType>(work); });
  emulated::launch<DigitShared>(1, kThreads, ++seed, [&](DigitShared& shared) { guess_threshold<kType>(shared, work); });
  emulated::launch<CompactionShared>(tiles, kThreads, ++seed,
                                     [&](CompactionShared& shared) { take_candidates<kType>(shared, work); });
  emulated::launch<NoShared>(1, kThreads, ++seed, [&](NoShared&) { begin_select(work); });
  for (int shift = 8 * static_cast<int>(sizeof(typename Elements<kType>::Accumulator)) - 8; shift >= 0; shift -= 8) {
    emulated::launch<DigitShared>(1, kThreads, ++seed, [&](DigitShared& shared) { count_digits<kType>(shared, work, shift); });
    emulated::launch<NoShared>(1, kThreads, ++seed, [&](NoShared&) { choose_digit(work, shift); });
  }
  emulated::launch<CompactionShared>(tiles, kThreads, ++seed, [&](CompactionShared& shared) { cut<kType>(shared, work); });
}

void run_top_k_of(DataType type, const TopKWork& work) {
  const std::lock_guard lock(grid_mutex());
  switch (type) {
    case DataType::kFloat32:
      return run_top_k<TopKType::kFloat32>(work);
    case DataType::kFloat16:
      return run_top_k<TopKType::kFloat16>(work);
    case DataType::kBfloat16:
      return run_top_k<TopKType::kBfloat16>(work);
    case DataType::kFloat64:
      return run_top_k<TopKType::kFloat64>(work);
    case DataType::kInt32:
      return run_top_k<TopKType::kInt32>(work);
    default:
      return run_top_k<TopKType::kInt64>(work);
  }
}

bool top_k_supports(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat16 || type == DataType::kBfloat16 || type == DataType::kFloat64 ||
         type == DataType::kInt32 || type == DataType::kInt64;
}

// As the CUDA glue has it.
Status top_k(const kernels::TopK& call, DataType type, void* workspace, std::size_t workspace_bytes, void* stream) {
  if (workspace_bytes < top_k_workspace_bytes(call.count, call.k, type)) return Status(Code::kInvalidArgument, "the workspace");
  enqueue(stream, [=] {
    auto* const bytes = static_cast<std::byte*>(reachable(workspace));
    auto* const found = static_cast<std::uint64_t*>(reachable(call.found));
    *found = 0;
    if (call.count == 0) return;
    const std::uint64_t tiles = tile_count(call.count), k = std::min(call.k, call.count);
    const std::uint64_t capacity = candidate_capacity(call.count, k);
    auto* const words = reinterpret_cast<std::uint64_t*>(bytes + kStateBytes);
    std::uint64_t* const states = words + kSamples;
    std::memset(bytes, 0, kStateBytes);
    std::memset(states, 0, 3 * tiles * sizeof(TileState));
    run_top_k_of(type, {reachable(call.values),
                        reachable(call.residual),
                        call.count,
                        k,
                        call.clear_sent,
                        static_cast<std::uint64_t*>(reachable(call.indices)),
                        reachable(call.taken),
                        found,
                        reinterpret_cast<TopKState*>(bytes),
                        words,
                        {states, states + tiles, states + 2 * tiles},
                        capacity,
                        states + 3 * tiles,
                        states + 3 * tiles + capacity});
  });
  return Status();
}

Status check_device() { return Status(); }

}  // namespace
}  // namespace sparcl::test

// Instead of the composition root's own.
sparcl::Result<const sparcl::kernels::DeviceKernelSet*> sparcl::api::device_kernels() {
  static constexpr kernels::DeviceKernelSet kSet{"emulated",           test::check_device,          test::gather, test::scatter,
                                                 test::top_k_supports, test::top_k_workspace_bytes, test::top_k};
  return &kSet;
}
