// Top-k between the ranks' GPUs (sparclCommUseNccl): the host agrees and enqueues, the stream
// selects, exchanges and sums. It waits for no GPU, so the report's times are the host's, and what
// is known on the device alone is not in it.
#include <optional>

#include "collectives/collective.hpp"
#include "collectives/top_k/stream_top_k.hpp"
#include "collectives/top_k/top_k_plan.hpp"
#include "src/base/failpoint.hpp"
#include "src/comm/device/device_calls.hpp"

namespace sparcl::collectives::top_k {
namespace {

struct Prepared {
  DeviceCalls::Memory memory;
  std::shared_ptr<const gpu::DeviceBuffer> residual;
};

Result<Prepared> prepare(DeviceCalls& device, const TopKCall& call, std::size_t bytes) {
  const gpu::DeviceScope inside(device.context());
  SPARCL_RETURN_IF_ERROR(inside.status());
  Prepared made;
  Result<DeviceCalls::Memory> memory = device.reserve(bytes, call.stream);
  if (!memory.ok()) return memory.status().with_prefix("top-k's memory: ");
  made.memory = std::move(*memory);
  if (call.feedback == nullptr) return made;
  SPARCL_ASSIGN_OR_RETURN(auto residual, call.feedback->use_on_device(device.context(), call.stream,
                                                                      made.memory.is_captured));
  made.residual = std::move(residual);
  return made;
}

Status note_use(const DeviceCalls& device, const TopKCall& call,
                const DeviceCalls::Memory& memory) {
  if (memory.is_captured) {
    call.feedback->used_in_graph(memory.bytes);
    return Status();
  }
  Result<gpu::DeviceEvent> until = gpu::DeviceEvent::record(device.context(), call.stream);
  if (until.ok()) call.feedback->used_in(call.stream, std::move(*until));
  return until.status();
}

Status enqueue(DeviceCalls& device, const TopKCall& call, StreamTopK& steps,
               const Prepared& prepared) {
  const gpu::DeviceScope inside(device.context());
  SPARCL_RETURN_IF_ERROR(inside.status());
  const Status enqueued =
      steps.enqueue(prepared.memory.bytes->data(),
                    prepared.residual != nullptr ? prepared.residual->data() : nullptr);
  const Status held = device.hold(prepared.memory, prepared.residual, call.stream);
  if (call.feedback != nullptr) {
    if (const Status noted = note_use(device, call, prepared.memory); held.ok() && !noted.ok())
      return enqueued.ok() ? noted : enqueued;
  }
  return enqueued.ok() ? held : enqueued;
}

// The last call's statistics are not known here.
void note_call(sparse::Feedback& feedback) {
  const std::uint64_t calls = feedback.stats.calls + 1;
  feedback.stats = {};
  feedback.stats.calls = calls;
  feedback.least = 0;
}

}  // namespace

Task all_reduce_top_k_between_gpus(const CommContext& comm, std::uint32_t number,
                                   const TopKCall& call, CallReport& report) {
  Engine& engine = *comm.engine;
  comm.device->exchange_health(engine);
  if (!engine.health().ok()) co_return engine.health();
  transport::Transport& transport = engine.transport();
  SPARCL_FAILPOINT("allreduce.begin");
  const double begin = transport.now();
  std::optional<StreamTopK> steps;
  Prepared prepared;
  Status refusal = call.refusal;
  if (refusal.ok()) {
    steps.emplace(*comm.device, call, wire_of(call), transport.size());
    Result<Prepared> made = prepare(*comm.device, call, steps->memory_bytes());
    refusal = made.status();
    if (made.ok()) prepared = std::move(*made);
  }
  Status verdict;
  CallFingerprint fingerprint = fingerprint_of(comm, call);
  fingerprint.algorithm = comm::kDeviceAlgorithm;
  Task agreement = agree(engine, {number, 0}, fingerprint, refusal, verdict);
  const Status alive = co_await agreement;
  if (!alive.ok()) {
    comm.device->exchange_health(engine);  // what streams hold of calls before ends, too
    co_return alive;
  }
  transport.close({number, 0});
  if (!verdict.ok()) co_return verdict;
  SPARCL_FAILPOINT("allreduce.agreed");

  // From here on the others enqueue, too: who cannot ends the comm, else they would wait for good.
  const Status enqueued = enqueue(*comm.device, call, *steps, prepared);
  if (!enqueued.ok()) {
    engine.fail(enqueued, transport.rank());
    comm.device->exchange_health(engine);
    co_return engine.health();
  }
  if (call.feedback != nullptr) note_call(*call.feedback);
  report.algorithm = comm.device->engine().name();
  report.dense_bytes = call.count * element_bytes(call.datatype);
  report.seconds = transport.now() - begin;
  report.wire = wire_of(call).is_exact()
                    ? call.datatype
                    : wire_of(call).accumulator;  // what is rounded travels as float32
  report.applied = true;
  co_return Status();
}

}  // namespace sparcl::collectives::top_k
