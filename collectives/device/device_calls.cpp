#include "collectives/device/device_calls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "collectives/engine/engine.hpp"
#include "src/base/stage_range.hpp"

namespace sparcl::collectives {
namespace {

EngineOp engine_op(Reduction reduction) {
  return reduction.is_mean ? EngineOp::kMean : static_cast<EngineOp>(static_cast<std::uint8_t>(reduction.op));
}

constexpr int kFarewellTurns = 5000;  // of a millisecond

}  // namespace

DeviceCalls::~DeviceCalls() {
  for (int turn = 0; turn < kFarewellTurns; ++turn) {
    forget_what_is_over();
    if (uses_.empty()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (engine_->abort()) {
    for (const Use& use : uses_) (void)use.event.wait();
    return;
  }
  // Of a caller's own NCCL communicator nothing can be ended here: its memory stays, for good.
  (void)new auto(std::move(uses_));
  (void)new auto(std::move(captures_));
  (void)new auto(std::move(shared_));
  (void)new auto(std::move(fragments_));
}

void DeviceCalls::forget_what_is_over() {
  while (!uses_.empty() && uses_.front().event.is_over()) uses_.pop_front();
}

Result<std::shared_ptr<FragmentMemory>> DeviceCalls::fragment_memory() {
  forget_what_is_over();
  if (fragments_ != nullptr) return fragments_;
  Result<std::shared_ptr<FragmentMemory>> made = FragmentMemory::allocate(context_);
  if (!made.ok()) return made.status().with_prefix("memory for the broadcast's fragments: ");
  fragments_ = *made;
  return made;
}

// One buffer for all calls: one on another stream comes behind the last that used it. A larger one does not wait for the old one's
// end.
Status DeviceCalls::reserve_shared(std::size_t bytes, void* stream) {
  if (shared_ == nullptr || shared_->size_bytes() < bytes) {
    Result<DeviceBuffer> made = DeviceBuffer::allocate(context_, bytes);
    if (!made.ok()) return made.status();
    shared_ = std::make_shared<const DeviceBuffer>(std::move(*made));
    return Status();
  }
  const auto last = std::find_if(uses_.rbegin(), uses_.rend(), [&](const Use& use) { return use.held.memory == shared_; });
  return last != uses_.rend() && last->stream != stream ? last->event.order(stream) : Status();
}

Result<DeviceCalls::Memory> DeviceCalls::reserve(std::size_t bytes, void* stream) {
  const DeviceScope inside(context_);
  SPARCL_RETURN_IF_ERROR(inside.status());
  forget_what_is_over();
  const Result<bool> captured = is_capturing(stream);
  if (!captured.ok()) return captured.status();
  if (bytes == 0) return Memory{nullptr, *captured};
  if (!*captured) {
    SPARCL_RETURN_IF_ERROR(reserve_shared(bytes, stream));
    return Memory{shared_, false};
  }
  Result<DeviceBuffer> own = DeviceBuffer::allocate(context_, bytes);
  if (!own.ok()) return own.status();
  return Memory{std::make_shared<const DeviceBuffer>(std::move(*own)), true};
}

Status DeviceCalls::hold(const Memory& memory, std::shared_ptr<const void> other, void* stream) {
  if (memory.is_captured) {
    captures_.push_back({memory.bytes, std::move(other)});
    return Status();
  }
  Result<DeviceEvent> event = DeviceEvent::record(context_, stream);
  if (!event.ok()) return event.status();
  uses_.push_back({std::move(*event), stream, {memory.bytes, std::move(other)}});
  return Status();
}

Result<DeviceCalls::MaskedSum> DeviceCalls::prepare(const Mask& mask, DeviceMasks& copies, std::size_t element_bytes,
                                                    void* stream) {
  const DeviceScope inside(context_);
  SPARCL_RETURN_IF_ERROR(inside.status());
  MaskedSum sum;
  Result<std::shared_ptr<const DeviceMask>> copy = copies.get(mask, context_);
  if (!copy.ok()) return copy.status();
  sum.mask = std::move(*copy);
  Result<Memory> packed = reserve(sum.mask->is_full ? 0 : mask.size() * element_bytes, stream);
  if (!packed.ok()) return packed.status().with_prefix("packed values: ");
  sum.packed = std::move(*packed);
  return sum;
}

Status DeviceCalls::enqueue(const MaskedSum& sum, const void* send, void* receive, DataType type, Reduction reduction,
                            void* stream) {
  const DeviceScope inside(context_);
  SPARCL_RETURN_IF_ERROR(inside.status());
  const Status enqueued = enqueue_steps(sum, send, receive, type, engine_op(reduction), stream);
  const Status held = hold(sum.packed, sum.mask, stream);
  return enqueued.ok() ? held : enqueued;
}

Status DeviceCalls::enqueue_steps(const MaskedSum& sum, const void* send, void* receive, DataType type, EngineOp op, void* stream) {
  const kernels::MaskPlaces& places = sum.mask->places;
  if (sum.mask->is_full) {
    const StageRange range("exchange");
    return engine_->all_reduce(send, receive, places.count, type, op, stream);
  }
  const std::size_t bytes = element_bytes(type);
  void* const packed = sum.packed.bytes->data();
  {
    const StageRange range("gather");
    SPARCL_RETURN_IF_ERROR(kernels_.gather_mask(places, send, bytes, packed, stream));
  }
  {
    const StageRange range("exchange");
    SPARCL_RETURN_IF_ERROR(engine_->all_reduce(packed, packed, places.count, type, op, stream));
  }
  const StageRange range("scatter");
  return kernels_.scatter_mask(places, packed, bytes, receive, stream);
}

void DeviceCalls::exchange_health(Engine& engine) {
  if (engine.health().ok()) {
    if (const Status found = engine_->health(); !found.ok()) engine.fail(found, -1);
  }
  if (!engine.health().ok()) (void)engine_->abort();
}

Status DeviceCalls::synchronize(Engine& engine, void* stream) {
  const DeviceScope inside(context_);
  SPARCL_RETURN_IF_ERROR(inside.status());
  if (const Result<bool> captured = is_capturing(stream); !captured.ok() || *captured) {
    return captured.ok() ? Status(Code::kInvalidUsage, "the stream is being captured: there is nothing to wait for")
                         : captured.status();
  }
  Transport& transport = engine.transport();
  const double deadline = transport.now() + engine.timeout_s();
  for (std::uint64_t turn = 0;; ++turn) {
    const Result<bool> idle = is_idle(stream);
    if (!idle.ok()) return idle.status();
    exchange_health(engine);
    if (*idle || !engine.health().ok()) return engine.health();
    const double time = transport.now();
    if (time > deadline) {
      engine.fail(
          Status(Code::kTimeout,
                 fmt::format("a stream has not come to its end in {:g} s: a rank did not make the same calls, or its GPU does "
                             "not come to them; a longer wait is SPARCL_TIMEOUT_S",
                             engine.timeout_s())),
          -1);
      exchange_health(engine);
      return engine.health();
    }
    if (!engine.step()) transport.idle(turn, std::min(deadline, time + 0.001));
  }
}

}  // namespace sparcl::collectives
