// The same between the ranks' GPUs (sparclCommUseNccl): the host agrees and enqueues, the stream sums. It waits for no GPU, so the
// report's times are the host's.
#include "collectives/agreement/agreement.hpp"
#include "collectives/all_reduce/all_reduce.hpp"
#include "collectives/all_reduce/canonical_sum.hpp"
#include "collectives/device/device_calls.hpp"
#include "src/base/failpoint.hpp"

namespace sparcl::collectives {
namespace {

// By NCCL's sums, or by canonical ones.
class SumOnDevice {
 public:
  SumOnDevice(const CommContext& comm, const MaskedCall& call)
      : device_(*comm.device),
        call_(call),
        forced_(forced_dense_row(comm.all_reduce_algorithm)),
        canonical_(device_, call, comm.engine->transport().rank(), comm.engine->transport().size(), forced_) {}

  std::uint8_t algorithm() const {
    return call_.is_canonical ? static_cast<std::uint8_t>(kCanonicalOnDevice + forced_) : kDeviceAlgorithm;
  }
  Status prepare() {
    if (call_.is_canonical) return canonical_.prepare();
    Result<DeviceCalls::MaskedSum> prepared =
        device_.prepare(*call_.mask, *call_.device_masks, element_bytes(call_.datatype), call_.stream);
    if (prepared.ok()) by_nccl_ = std::move(*prepared);
    return prepared.status();
  }
  Status enqueue() {
    if (call_.is_canonical) return canonical_.enqueue();
    return device_.enqueue(by_nccl_, call_.send, call_.receive, call_.datatype, call_.reduction, call_.stream);
  }

 private:
  DeviceCalls& device_;
  const MaskedCall& call_;
  std::uint8_t forced_;
  CanonicalSum canonical_;
  DeviceCalls::MaskedSum by_nccl_;
};

}  // namespace

Task all_reduce_masked_on_device(const CommContext& comm, std::uint32_t number, const MaskedCall& call, CallReport& report) {
  Engine& engine = *comm.engine;
  comm.device->exchange_health(engine);
  if (!engine.health().ok()) co_return engine.health();
  Transport& transport = engine.transport();
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
  report.bound_bytes = 2 * bytes / static_cast<std::uint64_t>(transport.size()) * static_cast<std::uint64_t>(transport.size() - 1);
  report.seconds = transport.now() - begin;
  report.wire = call.datatype;
  report.applied = true;
  transport.close({number, 0});
  co_return Status();
}

}  // namespace sparcl::collectives
