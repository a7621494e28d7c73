#include "src/model/device_snapshot.hpp"

#include <fmt/format.h>

#include "src/gpu/pinned_copies.hpp"
#include "src/model/device_tensor_source.hpp"

namespace sparcl::model {
namespace {

constexpr std::size_t kAlignment = 256;  // of what cuMemAlloc gives
constexpr std::size_t kMinLeft =
    16;  // of the GPU's memory one part in so many stays the program's. Heuristic

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// A driver that does not report the free memory is assumed to have enough.
Status check_room(void* context, std::size_t bytes) {
  const Result<gpu::DeviceRoom> room = gpu::device_room(context);
  if (!room.ok() || room->free_bytes >= bytes + room->total_bytes / kMinLeft) return {};
  return Status(
      Code::kOutOfMemory,
      fmt::format("a snapshot of {} bytes would leave too little of the GPU's {} free bytes", bytes,
                  room->free_bytes));
}

}  // namespace

Result<std::shared_ptr<const DeviceSnapshot>> DeviceSnapshot::make(const codec::BlockMap& map,
                                                                   void* context) {
  std::size_t bytes = 0;
  for (const codec::ArraySpec& array : map.arrays()) bytes += aligned(array.bytes());
  SPARCL_RETURN_IF_ERROR(check_room(context, bytes));
  SPARCL_ASSIGN_OR_RETURN(gpu::DeviceBuffer memory, gpu::DeviceBuffer::allocate(context, bytes));
  auto made = std::make_shared<DeviceSnapshot>();
  made->memory_ = std::move(memory);
  auto* at = static_cast<std::byte*>(made->memory_.data());
  for (const codec::ArraySpec& array : map.arrays()) {
    made->arrays_.push_back(array.count > 0 ? at : nullptr);
    at += aligned(array.bytes());
  }
  return std::shared_ptr<const DeviceSnapshot>(std::move(made));
}

Status DeviceSnapshot::read(const codec::BlockMap& map, Snapshot& into, void* stream) const {
  SPARCL_ASSIGN_OR_RETURN(const auto source,
                          DeviceTensorSource::create(map, {arrays_.begin(), arrays_.end()}));
  (source)->begin(stream);
  const std::vector<std::byte*> none(arrays_.size(), nullptr);
  const Status taken = into.take(map, none, source.get());
  const Status ended = (source)->end();
  return taken.ok() ? ended : taken;
}

Status DeviceSnapshot::write(const codec::BlockMap& map, const Snapshot& from, void* stream) const {
  gpu::PinnedCopies copies;
  Status status;
  for (std::size_t i = 0; i < arrays_.size() && status.ok(); ++i) {
    const std::size_t bytes = map.arrays()[i].bytes();
    if (bytes > 0) status = copies.to_device(arrays_[i], from.arrays()[i], bytes, stream);
  }
  if (status.ok()) return status;
  const gpu::DeviceScope inside(
      context());  // copies may be under way from what goes with this, and to what may go then
  if (inside.status().ok()) (void)gpu::wait_for(stream);
  return status;
}

}  // namespace sparcl::model
