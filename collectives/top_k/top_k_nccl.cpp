// Top-k between the ranks' GPUs (sparclCommUseNccl): the host agrees and enqueues; the stream
// selects, exchanges and sums. The call waits for no GPU. The report's times are therefore the
// host's, and it lacks the values that only the device knows.
#include <optional>

#include "collectives/collective.hpp"
#include "collectives/top_k/top_k_plan.hpp"
#include "collectives/top_k/top_k_stream.hpp"
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

class TopKBetweenGpus final : public CallBody {
 public:
  TopKBetweenGpus(const CommContext& comm, const TopKCall& call, CallReport& report)
      : comm_(comm), call_(call), report_(report) {}

  CallTerms terms() override {
    CallTerms terms;
    terms.fingerprint = fingerprint_of(comm_, call_);
    terms.fingerprint.algorithm = comm::kDeviceAlgorithm;
    terms.refusal = call_.refusal;
    if (!terms.refusal.ok()) return terms;
    steps_.emplace(*comm_.device, call_, wire_of(call_), comm_.engine->transport().size());
    Result<Prepared> made = prepare(*comm_.device, call_, steps_->memory_bytes());
    terms.refusal = made.status();
    if (made.ok()) prepared_ = std::move(*made);
    return terms;
  }

  // The other ranks enqueue, too: a rank that cannot poisons the communicator, or they would wait
  // for ever.
  Task run(const Extents&) override {
    const Status enqueued = enqueue(*comm_.device, call_, *steps_, prepared_);
    if (!enqueued.ok()) co_return end_comm(comm_, enqueued);
    if (call_.feedback != nullptr) note_call(*call_.feedback);
    const sparse::WireType wire = wire_of(call_);
    report_.algorithm = comm_.device->engine().name();
    report_.dense_bytes = call_.count * element_bytes(call_.datatype);
    report_.wire =
        wire.is_exact() ? call_.datatype : wire.accumulator;  // rounded values are sent as float32
    report_.applied = true;
    co_return Status();
  }

  std::uint8_t lanes() const override { return kAgreementLane + 1; }
  DeviceCalls* gpus() const override { return comm_.device; }

 private:
  const CommContext& comm_;
  const TopKCall& call_;
  CallReport& report_;
  std::optional<StreamTopK> steps_;
  Prepared prepared_;
};

}  // namespace

Task all_reduce_top_k_nccl(const CommContext& comm, std::uint32_t number, const TopKCall& call,
                           CallReport& report) {
  return agreed_call(comm, number, std::make_unique<TopKBetweenGpus>(comm, call, report), report);
}

}  // namespace sparcl::collectives::top_k
