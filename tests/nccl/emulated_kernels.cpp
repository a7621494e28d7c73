// The device kernels of this test's library: the block routines that run on GPUs, emulated on the host, in their streams' order.

#include <mutex>

#include "tests/cuda/emulated_cuda.hpp"
// After the emulation.
#include "kernels/cuda/mask_block.cuh"
#include "src/api/device_kernel_choice.hpp"
#include "tests/device/fake_driver.hpp"

namespace sparcl::test {
namespace {

using namespace kernels::cuda;  // NOLINT: the routines

struct NoShared {};

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
    static std::mutex one_grid_at_a_time;
    const std::lock_guard lock(one_grid_at_a_time);
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

}  // namespace
}  // namespace sparcl::test

// Instead of the composition root's own.
sparcl::Result<const sparcl::kernels::DeviceKernelSet*> sparcl::api::device_kernels() {
  static constexpr kernels::DeviceKernelSet kSet{"emulated", test::gather, test::scatter};
  return &kSet;
}
