#include "tests/fakes/nccl/emulated_kernels.hpp"
// After the emulation.
#include <atomic>

#include "kernels/cuda/mask_block.cuh"
#include "src/api/device_kernel_choice.hpp"
#include "tests/fakes/nccl/device_faults.hpp"

namespace sparcl::test {
namespace {

using namespace kernels::cuda;  // NOLINT: the routines

template <class Word>
void run(const MaskWork& work, bool gathers) {
  emulated::launch<NoShared>(static_cast<unsigned>(mask_blocks(work.places)), kThreads, 1,
                             [&](NoShared&) {
                               if (gathers)
                                 gather_mask_block<Word>(work);
                               else
                                 scatter_mask_block<Word>(work);
                             });
}

Status enqueue_mask(const kernels::MaskPlaces& places, const void* array, const void* packed,
                    std::size_t element_bytes, void* stream, bool gathers) {
  return launch_in(stream, [=] {
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
}

Status gather(const kernels::MaskPlaces& places, const void* array, std::size_t element_bytes,
              void* packed, void* stream) {
  return enqueue_mask(places, array, packed, element_bytes, stream, true);
}

std::atomic<int> scatters_left = -1;

Status scatter(const kernels::MaskPlaces& places, const void* packed, std::size_t element_bytes,
               void* array, void* stream) {
  if (scatters_left == 0)
    return Status(Code::kUnhandledCudaError, "CUDA: scatter: an error of the test's");
  if (scatters_left > 0) --scatters_left;
  return enqueue_mask(places, array, packed, element_bytes, stream, false);
}

Status check_device() { return Status(); }

}  // namespace

void fail_scatters_from(int scatter) { scatters_left = scatter; }

}  // namespace sparcl::test

// Instead of the composition root's own.
sparcl::Result<const sparcl::kernels::DeviceKernelSet*> sparcl::api::device_kernels() {
  static const kernels::DeviceKernelSet set{"emulated",
                                            test::check_device,
                                            test::gather,
                                            test::scatter,
                                            test::emulated_top_k(),
                                            test::emulated_entries(),
                                            test::emulated_sums(),
                                            test::emulated_encode_scaled(),
                                            test::emulated_round_groups(),
                                            test::emulated_block_kernels(),
                                            test::emulated_combine_rows()};
  return &set;
}
