#include "collectives/device/device_array_reader.hpp"

#include <algorithm>

#include "collectives/device/array_hash.hpp"
#include "src/codec/block_map.hpp"

namespace sparcl::collectives {
namespace {

constexpr std::size_t kMostPieceBytes = std::size_t{4} << 20;  // as base/pinned_copies has it

}  // namespace

DeviceArrayReader::DeviceArrayReader(DeviceScratch& scratch, const std::byte* array, std::uint64_t count, DataType type,
                                     void* stream)
    : scratch_(scratch),
      array_(array),
      count_(count),
      bytes_(count * element_bytes(type)),
      type_(type),
      stream_(stream),
      piece_bytes_(static_cast<std::size_t>(std::min<std::uint64_t>(bytes_, kMostPieceBytes))) {
  static_assert(kMostPieceBytes % (std::size_t{codec::kBlockElements} * 8) == 0);
}

DeviceArrayReader::~DeviceArrayReader() { scratch_.end_use(); }

Status DeviceArrayReader::reserve() {
  const Result<DeviceScratch::Memory> memory = scratch_.both(kHashBytes, kHashBytes + 2 * piece_bytes_, "reading an array");
  if (!memory.ok()) return memory.status();
  device_hash_ = memory->device;
  pinned_ = memory->pinned;
  return Status();
}

Status DeviceArrayReader::begin(bool hashes) {
  SPARCL_RETURN_IF_ERROR(reserve());
  const DeviceScope inside(scratch_.context());
  SPARCL_RETURN_IF_ERROR(inside.status());
  scratch_.begin_use(stream_);
  if (hashes) {
    SPARCL_RETURN_IF_ERROR(enqueue_array_hash(scratch_, array_, count_, type_, device_hash_, pinned_, stream_));
  }
  return enqueue();
}

Hash128 DeviceArrayReader::sum() const { return array_hash_in(pinned_); }

// The next piece to be asked for.
Status DeviceArrayReader::enqueue() {
  const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes_, bytes_ - enqueued_byte_));
  std::byte* const to = pinned_ + kHashBytes + enqueued_half_ * piece_bytes_;
  SPARCL_RETURN_IF_ERROR(enqueue_copy(to, array_ + enqueued_byte_, bytes, stream_));
  Result<DeviceEvent> event = DeviceEvent::record(scratch_.context(), stream_);
  if (!event.ok()) return event.status();
  arrived_[enqueued_half_] = std::move(*event);
  enqueued_byte_ += bytes;
  enqueued_half_ = 1 - enqueued_half_;
  return Status();
}

std::size_t DeviceArrayReader::next_bytes() const {
  return static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes_, bytes_ - next_byte_));
}

Result<std::span<const std::byte>> DeviceArrayReader::next() {
  const DeviceScope inside(scratch_.context());
  SPARCL_RETURN_IF_ERROR(inside.status());
  if (has_to_enqueue()) SPARCL_RETURN_IF_ERROR(enqueue());
  if (!arrived_[half_].is_over()) return std::span<const std::byte>();
  SPARCL_RETURN_IF_ERROR(arrived_[half_].wait());
  const std::span<const std::byte> piece(pinned_ + kHashBytes + half_ * piece_bytes_, next_bytes());
  next_byte_ += piece.size();
  half_ = 1 - half_;
  return piece;
}

}  // namespace sparcl::collectives
