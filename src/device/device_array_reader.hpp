#pragma once
// Reads arrays in device memory piece by piece on the host: one piece is used while the next is in
// flight.

#include <array>
#include <span>

#include "src/base/checksum.hpp"
#include "src/device/device_scratch.hpp"
#include "src/device/device_spans.hpp"

namespace sparcl::device {

// Elements of neighbouring blocks of one type, one after the other; empty: not arrived yet.
struct ArrayPiece {
  std::uint64_t first_block = 0, end_block = 0;
  std::span<const std::byte> bytes;
};

class DeviceArrayReader {
 public:
  // arrays: of the map, not empty; they outlive it.
  DeviceArrayReader(DeviceScratch& scratch, const codec::BlockMap& map,
                    std::span<const std::byte* const> arrays, void* stream);
  ~DeviceArrayReader();
  DeviceArrayReader(const DeviceArrayReader&) = delete;
  DeviceArrayReader& operator=(const DeviceArrayReader&) = delete;

  // Reserves its memory.
  Status reserve();
  // hashes: sum() is wanted.
  Status begin(bool hashes);
  bool has_more() const { return next_block_ < spans_.map().block_count(); }
  // next() would have nothing to do.
  bool is_waiting() const { return !has_to_enqueue() && !arrived_[half_].is_over(); }
  // The next piece, valid until the following call. Pieces cover all blocks, in order.
  Result<ArrayPiece> next();
  // The arrays' contribution to their state's hash; available after the first piece.
  Hash128 sum() const;
  // After the last piece: the pinned memory of two pieces, piece_bytes each, which is free for
  // other use.
  std::byte* pieces() const { return pinned_ + kHashBytes; }
  std::size_t piece_bytes() const { return piece_bytes_; }

 private:
  static constexpr std::size_t kHashBytes = 256;  // before the pieces

  bool has_to_enqueue() const {
    return enqueued_block_ < spans_.map().block_count() &&
           enqueued_block_ == halves_[half_].end_block;
  }
  Status enqueue();

  DeviceScratch& scratch_;
  DeviceSpans spans_;
  std::span<const std::byte* const> arrays_;
  void* stream_;
  std::size_t piece_bytes_;  // most
  std::byte* pinned_ = nullptr;
  std::byte* device_hash_ = nullptr;
  std::uint64_t next_block_ = 0;      // of the piece that next() returns
  unsigned half_ = 0;                 // the half for its data
  std::uint64_t enqueued_block_ = 0;  // the block after the last enqueued one
  unsigned enqueued_half_ = 0;
  std::array<ArrayPiece, 2> halves_;
  std::array<gpu::DeviceEvent, 2> arrived_;
};

// The end of the longest sequence of a run's blocks from `first` on that fits `bytes`: at least one
// block.
std::uint64_t piece_end(const codec::BlockMap& map, std::uint64_t first, std::size_t bytes);

}  // namespace sparcl::device
