#include "collectives/device/device_array_writer.hpp"

#include <algorithm>
#include <cstring>

namespace sparcl::collectives {

Result<bool> DeviceArrayWriter::step() {
  const DeviceScope inside(scratch_.context());
  SPARCL_RETURN_IF_ERROR(inside.status());
  for (; ended_turns_ < has_left_.size(); ++turn_) {
    DeviceEvent& left = has_left_[turn_ % 2];
    if (!left.is_over()) return false;
    SPARCL_RETURN_IF_ERROR(left.wait());
    const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes_, bytes_ - written_bytes_));
    if (bytes == 0) {
      ++ended_turns_;
      continue;
    }
    std::byte* const half = pinned_ + turn_ % 2 * piece_bytes_;
    std::memcpy(half, from_ + written_bytes_, bytes);
    SPARCL_RETURN_IF_ERROR(enqueue_copy(to_ + written_bytes_, half, bytes, stream_));
    Result<DeviceEvent> event = DeviceEvent::record(scratch_.context(), stream_);
    if (!event.ok()) return event.status();
    left = std::move(*event);
    written_bytes_ += bytes;
  }
  return true;
}

}  // namespace sparcl::collectives
