// The same between the ranks' GPUs (sparclCommUseNccl): the host agrees and enqueues, the stream
// sums. It waits for no GPU, so the report's times are the host's.
#include "collectives/collective.hpp"
#include "collectives/masked/canonical_sum.hpp"
#include "collectives/masked/masked.hpp"
#include "src/base/failpoint.hpp"
#include "src/base/stage_range.hpp"
#include "src/comm/device/device_calls.hpp"

namespace sparcl::collectives::masked {
namespace {

transport::EngineOp engine_op(sparse::Reduction reduction) {
  return reduction.is_mean
             ? transport::EngineOp::kMean
             : static_cast<transport::EngineOp>(static_cast<std::uint8_t>(reduction.op));
}

// Gathers, sums, scatters: three things in the stream, whose sizes are the mask's alone.
class SumByNccl {
 public:
  SumByNccl(DeviceCalls& device, const MaskedCall& call) : device_(device), call_(call) {}

  // What the sum takes, before anything is enqueued or agreed on. A call that is captured gets
  // memory that stays for its graph's sake.
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
    return device_.kernels().scatter_mask(places, packed, bytes, call_.receive, call_.stream);
  }

  DeviceCalls& device_;
  const MaskedCall& call_;
  std::shared_ptr<const sparse::DeviceMask> mask_;
  DeviceCalls::Memory packed_;  // nothing where the mask is all of the array
};

// By NCCL's sums, or by canonical ones.
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

}  // namespace

Task all_reduce_masked_on_device(const CommContext& comm, std::uint32_t number,
                                 const MaskedCall& call, CallReport& report) {
  Engine& engine = *comm.engine;
  comm.device->exchange_health(engine);
  if (!engine.health().ok()) co_return engine.health();
  transport::Transport& transport = engine.transport();
  SPARCL_FAILPOINT("allreduce.begin");
  const double begin = transport.now();
  MaskedCall agreed = call;
  SumOnDevice sum(comm, call);
  if (call.refusal.ok()) agreed.refusal = sum.prepare();
  Status verdict;
  Task agreement = agree_on_mask(comm, number, agreed, sum.algorithm(), verdict);
  Status alive = co_await agreement;
  if (!alive.ok()) {
    comm.device->exchange_health(engine);  // what streams hold of calls before ends, too
    co_return alive;
  }
  if (!verdict.ok()) co_return verdict;
  SPARCL_FAILPOINT("allreduce.agreed");

  // From here on the others enqueue, too: who cannot ends the comm, else they would wait for good.
  const Status enqueued = sum.enqueue();
  if (!enqueued.ok()) {
    engine.fail(enqueued, transport.rank());
    comm.device->exchange_health(engine);
    co_return engine.health();
  }
  const std::uint64_t bytes = call.mask->size() * element_bytes(call.datatype);
  report.algorithm = comm.device->engine().name();
  report.nnz_in = report.nnz_out = call.mask->size();
  report.dense_bytes = call.mask->count() * element_bytes(call.datatype);
  report.bound_bytes = 2 * bytes / static_cast<std::uint64_t>(transport.size()) *
                       static_cast<std::uint64_t>(transport.size() - 1);
  report.seconds = transport.now() - begin;
  report.wire = call.datatype;
  report.applied = true;
  transport.close({number, 0});
  co_return Status();
}

}  // namespace sparcl::collectives::masked
