#include "src/gpu/pinned_copies.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "src/gpu/device_memory.hpp"

namespace sparcl::gpu {
namespace {

constexpr std::size_t kChunkBytes =
    std::size_t{4} << 20;  // heuristic: the link's speed, and little to wait for at both ends
constexpr std::size_t kMinBytes = 2 * kChunkBytes;  // of an array, else nothing overlaps

// Chunks of one copy, in turn through two halves of the memory.
class Chunks {
 public:
  Chunks(void* context, std::byte* memory, std::size_t bytes, void* stream)
      : context_(context), memory_(memory), bytes_(bytes), stream_(stream) {}

  std::size_t count() const { return (bytes_ + kChunkBytes - 1) / kChunkBytes; }
  std::size_t begin(std::size_t chunk) const { return chunk * kChunkBytes; }
  std::size_t size(std::size_t chunk) const { return std::min(kChunkBytes, bytes_ - begin(chunk)); }
  std::byte* half(std::size_t chunk) const { return memory_ + chunk % 2 * kChunkBytes; }

  Status enqueue(std::size_t chunk, void* to, const void* from) {
    SPARCL_RETURN_IF_ERROR(enqueue_copy(to, from, size(chunk), stream_));
    Result<DeviceEvent> event = DeviceEvent::record(context_, stream_);
    if (event.ok()) events_[chunk % 2] = std::move(*event);
    return event.status();
  }
  Status wait(std::size_t chunk) const { return events_[chunk % 2].wait(); }

 private:
  void* context_;
  std::byte* memory_;
  std::size_t bytes_;
  void* stream_;
  std::array<DeviceEvent, 2> events_;
};

}  // namespace

Result<void*> PinnedCopies::prepare(const void* device, std::size_t bytes, void* stream) {
  if (bytes < kMinBytes || !can_stage()) return static_cast<void*>(nullptr);
  const Result<void*> context = context_for(device, stream);
  if (!context.ok() || memory_.data() != nullptr) return context;
  Result<PinnedBuffer> made = PinnedBuffer::allocate(*context, 2 * kChunkBytes);
  if (!made.ok()) return static_cast<void*>(nullptr);  // there may be a limit to it
  memory_ = std::move(*made);
  return context;
}

Status PinnedCopies::to_host(void* host, const void* device, std::size_t bytes, void* stream) {
  SPARCL_ASSIGN_OR_RETURN(void* const context, prepare(device, bytes, stream));
  if (context == nullptr) return copy_device_memory(host, device, bytes, stream);
  const DeviceScope inside(context);
  SPARCL_RETURN_IF_ERROR(inside.status());
  Chunks chunks(context, memory_.data(), bytes, stream);
  for (std::size_t i = 0; i <= chunks.count(); ++i) {
    if (i < chunks.count())
      SPARCL_RETURN_IF_ERROR(chunks.enqueue(
          i, chunks.half(i), static_cast<const std::byte*>(device) + chunks.begin(i)));
    if (i == 0) continue;
    SPARCL_RETURN_IF_ERROR(chunks.wait(i - 1));
    std::memcpy(static_cast<std::byte*>(host) + chunks.begin(i - 1), chunks.half(i - 1),
                chunks.size(i - 1));
  }
  return Status();
}

Status PinnedCopies::to_device(void* device, const void* host, std::size_t bytes, void* stream) {
  SPARCL_ASSIGN_OR_RETURN(void* const context, prepare(device, bytes, stream));
  if (context == nullptr) return copy_device_memory(device, host, bytes, stream);
  const DeviceScope inside(context);
  SPARCL_RETURN_IF_ERROR(inside.status());
  Chunks chunks(context, memory_.data(), bytes, stream);
  for (std::size_t i = 0; i < chunks.count(); ++i) {
    SPARCL_RETURN_IF_ERROR(chunks.wait(i));  // for the chunk that was in this half
    std::memcpy(chunks.half(i), static_cast<const std::byte*>(host) + chunks.begin(i),
                chunks.size(i));
    SPARCL_RETURN_IF_ERROR(
        chunks.enqueue(i, static_cast<std::byte*>(device) + chunks.begin(i), chunks.half(i)));
  }
  SPARCL_RETURN_IF_ERROR(chunks.wait(0));
  return chunks.wait(1);
}

}  // namespace sparcl::gpu
