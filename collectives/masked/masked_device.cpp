// The masked all-reduce of arrays in a GPU's memory, summed on the host. The mask's values are
// gathered on the device, and only these are copied. The bits, and the messages to other ranks, are
// those of arrays on the host. Runs in the order of the call's stream; each step waits for it.
#include "collectives/collective.hpp"
#include "collectives/masked/masked.hpp"
#include "src/base/stage_range.hpp"
#include "src/device/device_scratch.hpp"

namespace sparcl::collectives::masked {
namespace {

// The mask's values on the device and on the host.
class PackedValues {
 public:
  explicit PackedValues(const MaskedCall& call)
      : call_(call), width_(element_bytes(call.datatype)), bytes_(call.mask->size() * width_) {}

  Result<std::byte*> gather() {
    const gpu::DeviceScope inside(call_.scratch->context());
    SPARCL_RETURN_IF_ERROR(inside.status());
    Result<std::shared_ptr<const sparse::DeviceMask>> mask =
        call_.device_masks->get(*call_.mask, call_.scratch->context());
    if (!mask.ok()) return mask.status();
    mask_ = std::move(*mask);
    SPARCL_ASSIGN_OR_RETURN(const device::DeviceScratch::Memory memory,
                            call_.scratch->both(bytes_, bytes_, "a mask's values"));
    memory_ = memory;
    const StageRange range("gather");
    SPARCL_RETURN_IF_ERROR(settled(enqueue_gather()));
    return memory_.pinned;
  }

  Status scatter() const {
    const StageRange range("scatter");
    const gpu::DeviceScope inside(call_.scratch->context());
    SPARCL_RETURN_IF_ERROR(inside.status());
    return settled(enqueue_scatter());
  }

 private:
  const kernels::DeviceKernelSet& kernels() const { return call_.scratch->kernels(); }

  Status enqueue_gather() const {
    SPARCL_RETURN_IF_ERROR(
        kernels().gather_mask(mask_->places, call_.send, width_, memory_.device, call_.stream));
    return gpu::enqueue_copy(memory_.pinned, memory_.device, bytes_, call_.stream);
  }
  Status enqueue_scatter() const {
    if (call_.clears_outside)
      SPARCL_RETURN_IF_ERROR(
          gpu::enqueue_zeros(call_.receive, call_.mask->count() * width_, call_.stream));
    SPARCL_RETURN_IF_ERROR(gpu::enqueue_copy(memory_.device, memory_.pinned, bytes_, call_.stream));
    return kernels().scatter_mask(mask_->places, memory_.device, width_, call_.receive,
                                  call_.stream);
  }
  // The enqueued work uses this call's memory, even if a later step could not be enqueued.
  Status settled(const Status& enqueued) const {
    const Status through = gpu::wait_for(call_.stream);
    return enqueued.ok() ? through : enqueued;
  }

  const MaskedCall& call_;
  std::size_t width_, bytes_;
  std::shared_ptr<const sparse::DeviceMask> mask_;
  device::DeviceScratch::Memory memory_{};
};

}  // namespace

Task all_reduce_masked_device(const CommContext& comm, std::uint32_t number, const MaskedCall& call,
                              CallReport& report) {
  if (!call.refusal.ok() || !comm.engine->health().ok()) {  // then there may be no mask
    Task refusing = all_reduce_masked(comm, number, call, report);
    const Status status = co_await refusing;
    co_return status;
  }
  PackedValues values(call);
  MaskedCall packed = call;
  const Result<std::byte*> gathered = values.gather();
  packed.refusal = gathered.status();
  if (gathered.ok()) packed.packed = *gathered;
  Task summing = all_reduce_masked(comm, number, packed, report);
  const Status status = co_await summing;
  if (!status.ok()) co_return status;
  const Status written = values.scatter();
  report.applied = written.ok();
  co_return written.with_prefix("the call was made, but its output did not reach the device: ");
}

}  // namespace sparcl::collectives::masked
