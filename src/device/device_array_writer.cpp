#include "src/device/device_array_writer.hpp"

#include <cstring>

#include "src/device/device_array_reader.hpp"

namespace sparcl::device {

Result<bool> DeviceArrayWriter::step() {
  const gpu::DeviceScope inside(scratch_.context());
  SPARCL_RETURN_IF_ERROR(inside.status());
  for (; ended_turns_ < has_left_.size(); ++turn_) {
    if (is_waiting()) return false;
    SPARCL_RETURN_IF_ERROR(has_left_[turn_ % 2].wait());
    if (next_block_ < spans_.map().block_count()) {
      SPARCL_RETURN_IF_ERROR(start(piece_end(spans_.map(), next_block_, piece_bytes_)));
    } else {
      ++ended_turns_;
    }
  }
  return true;
}

Status DeviceArrayWriter::start(std::uint64_t end_block) {
  std::byte* const half = pinned_ + turn_ % 2 * piece_bytes_;
  SPARCL_RETURN_IF_ERROR(spans_.for_pieces(
      next_block_, end_block,
      [&](std::uint32_t array, std::uint64_t at, std::size_t bytes, std::uint64_t place) {
        std::memcpy(half + place, arrays_.from[array] + at, bytes);
        return gpu::enqueue_copy(arrays_.to[array] + at, half + place, bytes, stream_);
      }));
  SPARCL_ASSIGN_OR_RETURN(gpu::DeviceEvent event,
                          gpu::DeviceEvent::record(scratch_.context(), stream_));
  has_left_[turn_ % 2] = std::move(event);
  next_block_ = end_block;
  return Status();
}

}  // namespace sparcl::device
