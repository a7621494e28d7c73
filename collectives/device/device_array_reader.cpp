#include "collectives/device/device_array_reader.hpp"

#include <algorithm>

#include "src/codec/block_map.hpp"

namespace sparcl::collectives {
namespace {

constexpr std::size_t kMostPieceBytes = std::size_t{4} << 20;  // as base/pinned_copies has it
constexpr std::size_t kHashBytes = 256;                        // before the pieces

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
  static_assert(kMostPieceBytes % (codec::kBlockElements * 8) == 0);
}

DeviceArrayReader::~DeviceArrayReader() {
  if (!is_enqueued_) return;
  const DeviceScope inside(scratch_.context());
  (void)wait_for(stream_);  // whatever comes of it: the memory is the next call's
}

Status DeviceArrayReader::reserve() {
  const Result<std::byte*> device = scratch_.on_device(kHashBytes);
  if (!device.ok()) return device.status();
  const Result<std::byte*> pinned = scratch_.pinned(kHashBytes + 2 * piece_bytes_);
  if (!pinned.ok()) return pinned.status().with_prefix("staging for an array in device memory: ");
  device_hash_ = *device;
  pinned_ = *pinned;
  return Status();
}

Status DeviceArrayReader::begin(bool hashes) {
  SPARCL_RETURN_IF_ERROR(reserve());
  const DeviceScope inside(scratch_.context());
  SPARCL_RETURN_IF_ERROR(inside.status());
  is_enqueued_ = true;
  if (hashes) {
    auto* const total = reinterpret_cast<kernels::DeviceHash*>(device_hash_);
    SPARCL_RETURN_IF_ERROR(enqueue_zeros(total, sizeof *total, stream_));
    SPARCL_RETURN_IF_ERROR(scratch_.kernels().blocks.hash(array_, count_, element_bytes(type_), {}, total, nullptr, stream_));
    SPARCL_RETURN_IF_ERROR(enqueue_copy(pinned_, total, sizeof *total, stream_));
  }
  return enqueue(0);
}

Hash128 DeviceArrayReader::sum() const {
  const auto& total = *reinterpret_cast<const kernels::DeviceHash*>(pinned_);
  return {total.low, total.high};
}

// Into the half that comes next.
Status DeviceArrayReader::enqueue(std::uint64_t first_byte) {
  const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes_, bytes_ - first_byte));
  SPARCL_RETURN_IF_ERROR(enqueue_copy(pinned_ + kHashBytes + half_ * piece_bytes_, array_ + first_byte, bytes, stream_));
  Result<DeviceEvent> event = DeviceEvent::record(scratch_.context(), stream_);
  if (event.ok()) arrived_[half_] = std::move(*event);
  return event.status();
}

Result<std::span<const std::byte>> DeviceArrayReader::next() {
  const DeviceScope inside(scratch_.context());
  SPARCL_RETURN_IF_ERROR(inside.status());
  const unsigned half = half_;
  const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes_, bytes_ - next_byte_));
  next_byte_ += bytes;
  half_ = 1 - half_;
  if (has_more()) SPARCL_RETURN_IF_ERROR(enqueue(next_byte_));
  SPARCL_RETURN_IF_ERROR(arrived_[half].wait());
  return std::span<const std::byte>(pinned_ + kHashBytes + half * piece_bytes_, bytes);
}

}  // namespace sparcl::collectives
