#pragma once
// Arrays in device memory, piece by piece on the host: one piece is used here while the next is on
// its way.

#include <array>
#include <span>

#include "src/base/checksum.hpp"
#include "src/device/device_scratch.hpp"
#include "src/device/device_spans.hpp"

namespace sparcl::device {

// Elements of neighbouring blocks of one type, one behind the other; empty: it is not there yet.
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

  // The memory that it takes.
  Status reserve();
  // hashes: sum() is wanted.
  Status begin(bool hashes);
  bool has_more() const { return next_block_ < spans_.map().block_count(); }
  // next() would find nothing to do.
  bool is_waiting() const { return !has_to_enqueue() && !arrived_[half_].is_over(); }
  // The next piece, until the call after. Pieces are all blocks, in order.
  Result<ArrayPiece> next();
  // What the arrays add to their state's hash: after the first piece.
  Hash128 sum() const;
  // After the last piece: two pieces of pinned memory, of so many bytes each, that are nobody's.
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
  std::uint64_t next_block_ = 0;      // of the piece that next() gives
  unsigned half_ = 0;                 // where it comes
  std::uint64_t enqueued_block_ = 0;  // the one after those that were asked for
  unsigned enqueued_half_ = 0;
  std::array<ArrayPiece, 2> halves_;
  std::array<gpu::DeviceEvent, 2> arrived_;
};

// The end of as many of a run's blocks from `first` on as take so many bytes: a block at least.
std::uint64_t piece_end(const codec::BlockMap& map, std::uint64_t first, std::size_t bytes);

}  // namespace sparcl::device
