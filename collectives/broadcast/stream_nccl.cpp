#include "collectives/broadcast/stream_nccl.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "src/base/failpoint.hpp"
#include "src/comm/device/device_calls.hpp"

namespace sparcl::collectives::broadcast {
namespace {

constexpr std::size_t kMinFragment = std::size_t{256} << 10;  // heuristic, not measured on a GPU

struct Head {
  std::uint64_t mark;
  std::uint64_t count;  // bytes of the stream that follow
};
constexpr std::uint64_t kFirstMark =
    0x7370617263'000000;  // of the first fragment; later fragments count on from it
constexpr std::size_t kMaxRoom = std::size_t{4} << 20;
static_assert(sizeof(Head) + kMaxRoom <= comm::FragmentMemory::kSlotBytes);

std::size_t room_of(std::uint64_t fragment) {
  return fragment < 8 ? std::min(kMinFragment << fragment, kMaxRoom) : kMaxRoom;
}

}  // namespace

GpuStream::Guard::Guard(Engine& engine, transport::Channel channel) : engine_(engine) {
  const transport::Transport& transport = engine.transport();
  nothing_ =
      engine.receive((transport.rank() + 1) % transport.size(), channel, Buffer::allocate(1));
}

GpuStream::Guard::~Guard() {
  if (!nothing_->done) engine_.transport().cancel(nothing_);
}

GpuStream::GpuStream(Engine& engine, transport::Channel channel, DeviceCalls& calls,
                     std::shared_ptr<comm::FragmentMemory> memory, int root)
    : Stream(engine), channel_(channel), calls_(calls), memory_(std::move(memory)), root_(root) {}

GpuStream::~GpuStream() {
  if (memory_ == nullptr) return;
  const gpu::DeviceScope inside(calls_.context());
  if (inside.status().ok()) (void)calls_.hold({}, memory_, memory_->stream.get());
}

Status GpuStream::end_comm(const Status& error) {
  engine_.fail(error, engine_.transport().rank());
  calls_.exchange_health(engine_);
  return engine_.health();
}

Task GpuStream::wait(const gpu::DeviceEvent& event, const char* purpose) {
  transport::Transport& transport = engine_.transport();
  const double deadline = transport.now() + engine_.timeout_s();
  while (!event.is_over()) {
    calls_.exchange_health(engine_);
    if (!engine_.health().ok()) co_return engine_.health();
    if (transport.now() > deadline) {
      co_return end_comm(Status(
          Code::kTimeout,
          fmt::format("NCCL has not come through with {} in {:g} s: a GPU does not come to it, or "
                      "the network between them is gone; a longer wait is SPARCL_TIMEOUT_S",
                      purpose, engine_.timeout_s())));
    }
    co_await engine_.yield(true);
  }
  if (const Status status = event.wait(); !status.ok()) co_return end_comm(status);
  calls_.exchange_health(engine_);  // aborted work has ended, too
  co_return engine_.health();
}

Task GpuStream::send_all(StreamSource& source, Status& outcome) {
  const Guard guard(engine_, channel_);
  std::uint64_t sent = 0;
  for (bool is_last = false; !is_last; ++fragment_) {
    const std::size_t room = room_of(fragment_);
    while (outcome.ok() && !source.finished() && written_ - sent < room) {
      const bool is_idle = source.is_waiting();
      if (!is_idle) outcome = produce(source);
      co_await engine_.yield(is_idle);
      if (!engine_.health().ok()) co_return engine_.health();
    }
    Task free = wait(memory_->last_use(fragment_), "a fragment of an update");
    SPARCL_CO_RETURN_IF_ERROR(co_await free);
    const std::size_t count =
        static_cast<std::size_t>(std::min<std::uint64_t>(room, written_ - sent));
    is_last = count < room;
    staging_.copy(sent, count, memory_->pinned(fragment_) + sizeof(Head));
    if (const Status status = send_fragment(count); !status.ok()) co_return end_comm(status);
    SPARCL_FAILPOINT("broadcast.sending");
    sent += count;
    staging_.release(sent);
  }
  for (const gpu::DeviceEvent& use : memory_->last_uses) {
    Task through = wait(use, "the last fragments of an update");
    SPARCL_CO_RETURN_IF_ERROR(co_await through);
  }
  co_return Status();
}

Status GpuStream::send_fragment(std::size_t count) {
  const Head head{kFirstMark + fragment_, count};
  std::memcpy(memory_->pinned(fragment_), &head, sizeof(Head));
  const gpu::DeviceScope inside(calls_.context());
  SPARCL_RETURN_IF_ERROR(inside.status());
  std::byte* const device = memory_->on_device(fragment_);
  void* const stream = memory_->stream.get();
  SPARCL_RETURN_IF_ERROR(
      gpu::enqueue_copy(device, memory_->pinned(fragment_), sizeof(Head) + count, stream));
  SPARCL_RETURN_IF_ERROR(
      calls_.engine().broadcast(device, sizeof(Head) + room_of(fragment_), root_, stream));
  traffic_.bytes_sent += sizeof(Head) + room_of(fragment_);
  Result<gpu::DeviceEvent> used = gpu::DeviceEvent::record(calls_.context(), stream);
  if (used.ok()) memory_->last_use(fragment_) = std::move(*used);
  return used.status();
}

Task GpuStream::receive_all(StreamTarget& target, Status& outcome) {
  const Guard guard(engine_, channel_);
  bool more = false;
  if (const Status status = receive_fragment(); !status.ok()) co_return end_comm(status);
  for (bool is_last = false; !is_last;) {
    while (more && outcome.ok() &&
           !arrived_.is_over()) {  // nothing to do but to check a piece of the received bytes
      const bool is_idle = target.is_waiting();
      if (!is_idle) outcome = check(target, more);
      co_await engine_.yield(is_idle);
      if (!engine_.health().ok()) co_return engine_.health();
    }
    std::size_t count = 0;
    Task head = wait(arrived_, "the next fragment of the update");
    SPARCL_CO_RETURN_IF_ERROR(co_await head);
    if (const Status status = take_head(count); !status.ok()) co_return end_comm(status);
    SPARCL_FAILPOINT("broadcast.receiving");
    is_last = count < room_of(fragment_);
    const std::byte* const bytes = memory_->pinned(fragment_) + sizeof(Head);
    gpu::DeviceEvent copied;
    if (const Status status = copy_from_device(sizeof(Head), count, copied); !status.ok())
      co_return end_comm(status);
    ++fragment_;
    if (!is_last) {  // behind the copy, in the other slot
      if (const Status status = receive_fragment(); !status.ok()) co_return end_comm(status);
    }
    Task body = wait(copied, "a copy from the GPU");
    SPARCL_CO_RETURN_IF_ERROR(co_await body);
    staging_.write(written_, {bytes, count});
    written_ += count;
    traffic_.stream_bytes = written_;
    more = true;
  }
  while (more && outcome.ok()) {
    const bool is_idle = target.is_waiting();
    if (!is_idle) outcome = check(target, more);
    co_await engine_.yield(is_idle);
    if (!engine_.health().ok()) co_return engine_.health();
  }
  if (outcome.ok()) outcome = finish(target);
  co_return Status();
}

Status GpuStream::receive_fragment() {
  const gpu::DeviceScope inside(calls_.context());
  SPARCL_RETURN_IF_ERROR(inside.status());
  const std::size_t bytes = sizeof(Head) + room_of(fragment_);
  SPARCL_RETURN_IF_ERROR(calls_.engine().broadcast(memory_->on_device(fragment_), bytes, root_,
                                                   memory_->stream.get()));
  traffic_.bytes_received += bytes;
  return copy_from_device(0, sizeof(Head), arrived_);
}

Status GpuStream::copy_from_device(std::size_t first, std::size_t count, gpu::DeviceEvent& event) {
  const gpu::DeviceScope inside(calls_.context());
  SPARCL_RETURN_IF_ERROR(inside.status());
  void* const stream = memory_->stream.get();
  if (count > 0)
    SPARCL_RETURN_IF_ERROR(gpu::enqueue_copy(memory_->pinned(fragment_) + first,
                                             memory_->on_device(fragment_) + first, count, stream));
  Result<gpu::DeviceEvent> made = gpu::DeviceEvent::record(calls_.context(), stream);
  if (made.ok()) event = std::move(*made);
  return made.status();
}

Status GpuStream::take_head(std::size_t& count) {
  Head head;
  std::memcpy(&head, memory_->pinned(fragment_), sizeof(Head));
  if (head.mark != kFirstMark + fragment_ || head.count > room_of(fragment_)) {
    return Status(Code::kInternalError, fmt::format("what NCCL brought is not fragment {} of the "
                                                    "update: the ranks' calls are not in one order",
                                                    fragment_));
  }
  count = static_cast<std::size_t>(head.count);
  return Status();
}

Task GpuStream::drain() { co_return Status(); }

}  // namespace sparcl::collectives::broadcast
