#include "src/device/device_array_reader.hpp"

#include <algorithm>

#include "src/device/array_hash.hpp"

namespace sparcl::device {
namespace {

constexpr std::size_t kMaxPieceBytes = std::size_t{4} << 20;  // as base/pinned_copies has it
static_assert(kMaxPieceBytes % (std::size_t{codec::kBlockElements} * 8) == 0);

}  // namespace

std::uint64_t piece_end(const codec::BlockMap& map, std::uint64_t first, std::size_t bytes) {
  const codec::BlockMap::BlockRun run = map.run_of(first);
  const std::uint64_t blocks = bytes / (codec::kBlockElements * element_bytes(run.datatype));
  return std::min(run.end(), first + std::max<std::uint64_t>(blocks, 1));
}

DeviceArrayReader::DeviceArrayReader(DeviceScratch& scratch, const codec::BlockMap& map,
                                     std::span<const std::byte* const> arrays, void* stream)
    : scratch_(scratch),
      spans_(map),
      arrays_(arrays),
      stream_(stream),
      piece_bytes_(
          static_cast<std::size_t>(std::min<std::uint64_t>(map.byte_count(), kMaxPieceBytes))) {}

DeviceArrayReader::~DeviceArrayReader() { scratch_.end_use(); }

Status DeviceArrayReader::reserve() {
  SPARCL_ASSIGN_OR_RETURN(
      const DeviceScratch::Memory memory,
      scratch_.both(kHashBytes, kHashBytes + 2 * piece_bytes_, "reading arrays"));
  device_hash_ = memory.device;
  pinned_ = memory.pinned;
  return Status();
}

Status DeviceArrayReader::begin(bool hashes) {
  SPARCL_RETURN_IF_ERROR(reserve());
  const gpu::DeviceScope inside(scratch_.context());
  SPARCL_RETURN_IF_ERROR(inside.status());
  scratch_.begin_use(stream_);
  if (hashes)
    SPARCL_RETURN_IF_ERROR(
        enqueue_array_hash(scratch_, spans_.map(), arrays_, device_hash_, pinned_, stream_));
  return enqueue();
}

Hash128 DeviceArrayReader::sum() const { return array_hash_in(pinned_); }

// The next piece to be asked for.
Status DeviceArrayReader::enqueue() {
  const codec::BlockMap& map = spans_.map();
  const std::uint64_t first = enqueued_block_, end = piece_end(map, first, kMaxPieceBytes);
  std::byte* const to = pieces() + enqueued_half_ * piece_bytes_;
  SPARCL_RETURN_IF_ERROR(spans_.for_pieces(
      first, end,
      [&](std::uint32_t array, std::uint64_t at, std::size_t bytes, std::uint64_t place) {
        return gpu::enqueue_copy(to + place, arrays_[array] + at, bytes, stream_);
      }));
  SPARCL_ASSIGN_OR_RETURN(gpu::DeviceEvent event,
                          gpu::DeviceEvent::record(scratch_.context(), stream_));
  arrived_[enqueued_half_] = std::move(event);
  const codec::BlockMap::BlockRun run = map.run_of(first);
  halves_[enqueued_half_] = {
      first,
      end,
      {to, static_cast<std::size_t>(run.elements(first, end)) * element_bytes(run.datatype)}};
  enqueued_block_ = end;
  enqueued_half_ = 1 - enqueued_half_;
  return Status();
}

Result<ArrayPiece> DeviceArrayReader::next() {
  const gpu::DeviceScope inside(scratch_.context());
  SPARCL_RETURN_IF_ERROR(inside.status());
  if (has_to_enqueue()) SPARCL_RETURN_IF_ERROR(enqueue());
  if (!arrived_[half_].is_over()) return ArrayPiece();
  SPARCL_RETURN_IF_ERROR(arrived_[half_].wait());
  const ArrayPiece piece = halves_[half_];
  next_block_ = piece.end_block;
  half_ = 1 - half_;
  return piece;
}

}  // namespace sparcl::device
