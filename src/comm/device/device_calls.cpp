#include "src/comm/device/device_calls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "src/comm/engine/engine.hpp"

namespace sparcl::comm {
namespace {

constexpr int kDepartureTurns = 5000;  // of a millisecond

}  // namespace

DeviceCalls::~DeviceCalls() {
  for (int turn = 0; turn < kDepartureTurns; ++turn) {
    forget_what_is_over();
    if (uses_.empty()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (engine_->abort()) {
    for (const Use& use : uses_) (void)use.event.wait();
    return;
  }
  // A caller's own NCCL communicator cannot be ended here: its memory stays for good.
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

// One buffer for all calls: a call on another stream is ordered after the last call that used it. A
// larger buffer does not wait for the old one's end.
Status DeviceCalls::reserve_shared(std::size_t bytes, void* stream) {
  if (shared_ == nullptr || shared_->size_bytes() < bytes) {
    SPARCL_ASSIGN_OR_RETURN(gpu::DeviceBuffer made, gpu::DeviceBuffer::allocate(context_, bytes));
    shared_ = std::make_shared<const gpu::DeviceBuffer>(std::move(made));
    return Status();
  }
  const auto last = std::find_if(uses_.rbegin(), uses_.rend(),
                                 [&](const Use& use) { return use.held.memory == shared_; });
  return last != uses_.rend() && last->stream != stream ? last->event.order(stream) : Status();
}

Result<DeviceCalls::Memory> DeviceCalls::reserve(std::size_t bytes, void* stream) {
  const gpu::DeviceScope inside(context_);
  SPARCL_RETURN_IF_ERROR(inside.status());
  forget_what_is_over();
  SPARCL_ASSIGN_OR_RETURN(const bool captured, gpu::is_capturing(stream));
  if (bytes == 0) return Memory{nullptr, captured};
  if (!captured) {
    SPARCL_RETURN_IF_ERROR(reserve_shared(bytes, stream));
    return Memory{shared_, false};
  }
  SPARCL_ASSIGN_OR_RETURN(gpu::DeviceBuffer own, gpu::DeviceBuffer::allocate(context_, bytes));
  return Memory{std::make_shared<const gpu::DeviceBuffer>(std::move(own)), true};
}

Status DeviceCalls::hold(const Memory& memory, std::shared_ptr<const void> other, void* stream) {
  if (memory.is_captured) {
    captures_.push_back({memory.bytes, std::move(other)});
    return Status();
  }
  SPARCL_ASSIGN_OR_RETURN(gpu::DeviceEvent event, gpu::DeviceEvent::record(context_, stream));
  uses_.push_back({std::move(event), stream, {memory.bytes, std::move(other)}});
  return Status();
}

void DeviceCalls::exchange_health(Engine& engine) {
  if (engine.health().ok()) {
    if (const Status found = engine_->health(); !found.ok()) engine.fail(found, -1);
  }
  if (!engine.health().ok()) (void)engine_->abort();
}

Status DeviceCalls::synchronize(Engine& engine, void* stream) {
  const gpu::DeviceScope inside(context_);
  SPARCL_RETURN_IF_ERROR(inside.status());
  if (const Result<bool> captured = gpu::is_capturing(stream); !captured.ok() || *captured) {
    return captured.ok() ? Status(Code::kInvalidUsage,
                                  "the stream is being captured: there is nothing to wait for")
                         : captured.status();
  }
  transport::Transport& transport = engine.transport();
  const double deadline = transport.now() + engine.timeout_s();
  for (std::uint64_t turn = 0;; ++turn) {
    SPARCL_ASSIGN_OR_RETURN(const bool idle, gpu::is_idle(stream));
    exchange_health(engine);
    if (idle || !engine.health().ok()) return engine.health();
    const double time = transport.now();
    if (time > deadline) {
      engine.fail(
          Status(
              Code::kTimeout,
              fmt::format(
                  "a stream has not come to its end in {:g} s: a rank did not make the same "
                  "calls, or its GPU does not come to them. SPARCL_TIMEOUT_S allows a longer wait",
                  engine.timeout_s())),
          -1);
      exchange_health(engine);
      return engine.health();
    }
    if (!engine.step()) transport.idle(turn, std::min(deadline, time + 0.001));
  }
}

}  // namespace sparcl::comm
