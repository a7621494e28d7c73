// The masked all-reduce between the ranks' GPUs (sparclCommUseNccl): the host agrees and enqueues,
// the stream sums. The call waits for no GPU, so the report's times are the host's.
#include "collectives/collective.hpp"
#include "collectives/masked/canonical_sum.hpp"
#include "collectives/masked/masked.hpp"
#include "src/base/stage_range.hpp"
#include "src/comm/device/device_calls.hpp"

namespace sparcl::collectives::masked {
namespace {

transport::EngineOp engine_op(sparse::Reduction reduction) {
  return reduction.is_mean
             ? transport::EngineOp::kMean
             : static_cast<transport::EngineOp>(static_cast<std::uint8_t>(reduction.op));
}

// Gathers, sums, scatters: three steps in the stream, whose sizes depend on the mask alone.
class SumByNccl {
 public:
  SumByNccl(DeviceCalls& device, const MaskedCall& call) : device_(device), call_(call) {}

  // Allocates memory, before anything is enqueued or agreed on. A captured call gets memory that
  // stays for its graph.
  Status prepare() {
    const gpu::DeviceScope inside(device_.context());
    SPARCL_RETURN_IF_ERROR(inside.status());
    SPARCL_ASSIGN_OR_RETURN(std::shared_ptr<const sparse::DeviceMask> copy,
                            call_.device_masks->get(*call_.mask, device_.context()));
    mask_ = std::move(copy);
    const std::size_t bytes =
        mask_->is_full ? 0 : call_.mask->size() * element_bytes(call_.datatype);
    Result<DeviceCalls::Memory> packed = device_.reserve(bytes, call_.stream);
    if (!packed.ok()) return packed.status().with_prefix("packed values: ");
    packed_ = std::move(*packed);
    return Status();
  }

  Status enqueue() {
    const gpu::DeviceScope inside(device_.context());
    SPARCL_RETURN_IF_ERROR(inside.status());
    const Status enqueued = enqueue_steps();
    const Status held = device_.hold(packed_, mask_, call_.stream);
    return enqueued.ok() ? held : enqueued;
  }

 private:
  Status enqueue_steps() {
    const kernels::MaskPlaces& places = mask_->places;
    const transport::EngineOp op = engine_op(call_.reduction);
    if (mask_->is_full) {
      const StageRange range("exchange");
      return device_.engine().all_reduce(call_.send, call_.receive, places.count, call_.datatype,
                                         op, call_.stream);
    }
    const std::size_t bytes = element_bytes(call_.datatype);
    void* const packed = packed_.bytes->data();
    {
      const StageRange range("gather");
      SPARCL_RETURN_IF_ERROR(
          device_.kernels().gather_mask(places, call_.send, bytes, packed, call_.stream));
    }
    {
      const StageRange range("exchange");
      SPARCL_RETURN_IF_ERROR(device_.engine().all_reduce(packed, packed, places.count,
                                                         call_.datatype, op, call_.stream));
    }
    const StageRange range("scatter");
    if (call_.clears_outside)
      SPARCL_RETURN_IF_ERROR(
          gpu::enqueue_zeros(call_.receive, call_.mask->count() * bytes, call_.stream));
    return device_.kernels().scatter_mask(places, packed, bytes, call_.receive, call_.stream);
  }

  DeviceCalls& device_;
  const MaskedCall& call_;
  std::shared_ptr<const sparse::DeviceMask> mask_;
  DeviceCalls::Memory packed_;  // empty if the mask is the whole array
};

// By NCCL's sums, or by canonical sums.
class SumOnDevice {
 public:
  SumOnDevice(const CommContext& comm, const MaskedCall& call)
      : call_(call),
        forced_(dense::forced_dense_row(comm.all_reduce_algorithm)),
        canonical_(*comm.device, call, comm.engine->transport().rank(),
                   comm.engine->transport().size(), forced_),
        by_nccl_(*comm.device, call) {}

  std::uint8_t algorithm() const {
    return call_.is_canonical ? static_cast<std::uint8_t>(comm::kCanonicalOnDevice + forced_)
                              : comm::kDeviceAlgorithm;
  }
  Status prepare() { return call_.is_canonical ? canonical_.prepare() : by_nccl_.prepare(); }
  Status enqueue() { return call_.is_canonical ? canonical_.enqueue() : by_nccl_.enqueue(); }

 private:
  const MaskedCall& call_;
  std::uint8_t forced_;
  CanonicalSum canonical_;
  SumByNccl by_nccl_;
};

class DeviceMaskedSum final : public CallBody {
 public:
  DeviceMaskedSum(const CommContext& comm, const MaskedCall& call, CallReport& report)
      : comm_(comm), call_(call), report_(report), sum_(comm, call_) {}

  CallTerms terms() override {
    if (call_.refusal.ok()) call_.refusal = sum_.prepare();
    return masked_terms(call_, sum_.algorithm(), sketch_);
  }

  // The other ranks enqueue, too: a rank that cannot poisons the communicator, or they would wait
  // for ever.
  Task run(const Extents&) override {
    if (const Status enqueued = sum_.enqueue(); !enqueued.ok()) {
      comm_.engine->fail(enqueued, comm_.engine->transport().rank());
      co_return comm_.engine->health();
    }
    report_.algorithm = comm_.device->engine().name();
    report_sum(call_, comm_.engine->transport().size(), report_);
    co_return Status();
  }

  std::uint8_t lanes() const override { return kAgreementLane + 1; }
  DeviceCalls* gpus() const override { return comm_.device; }

 private:
  const CommContext& comm_;
  MaskedCall call_;
  CallReport& report_;
  SumOnDevice sum_;
  sparse::MaskSketch sketch_{};
};

}  // namespace

Task all_reduce_masked_nccl(const CommContext& comm, std::uint32_t number, const MaskedCall& call,
                            CallReport& report) {
  return agreed_call(comm, number, std::make_unique<DeviceMaskedSum>(comm, call, report), report);
}

}  // namespace sparcl::collectives::masked
