// The same between the ranks' GPUs (sparclCommUseNccl): the host agrees and enqueues, the stream sums. It waits for no GPU, so the
// report's times are the host's.
#include "collectives/agreement/agreement.hpp"
#include "collectives/all_reduce/all_reduce.hpp"
#include "collectives/device/device_calls.hpp"
#include "src/base/failpoint.hpp"

namespace sparcl::collectives {

Task all_reduce_masked_on_device(const CommContext& comm, std::uint32_t number, const MaskedCall& call, CallReport& report) {
  Engine& engine = *comm.engine;
  comm.device->exchange_health(engine);
  if (!engine.health().ok()) co_return engine.health();
  Transport& transport = engine.transport();
  SPARCL_FAILPOINT("allreduce.begin");
  const double begin = transport.now();
  MaskedCall agreed = call;
  DeviceCalls::MaskedSum sum;
  if (call.refusal.ok()) {
    Result<DeviceCalls::MaskedSum> prepared =
        comm.device->prepare(*call.mask, *call.device_masks, element_bytes(call.datatype), call.stream);
    agreed.refusal = prepared.status();
    if (prepared.ok()) sum = std::move(*prepared);
  }
  Status verdict;
  Task agreement = agree_on_mask(comm, number, agreed, kDeviceAlgorithm, verdict);
  Status alive = co_await agreement;
  if (!alive.ok()) {
    comm.device->exchange_health(engine);  // what streams hold of calls before ends, too
    co_return alive;
  }
  if (!verdict.ok()) co_return verdict;
  SPARCL_FAILPOINT("allreduce.agreed");

  // From here on the others enqueue, too: who cannot ends the comm, else they would wait for good.
  Status enqueued = comm.device->enqueue(sum, call.send, call.receive, call.datatype, call.reduction, call.stream);
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
  report.applied = true;
  transport.close({number, 0});
  co_return Status();
}

}  // namespace sparcl::collectives
