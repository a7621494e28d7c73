#pragma once
// An array in device memory, piece by piece on the host: one piece is used here while the next is on its way.

#include <array>
#include <span>

#include "collectives/device/device_scratch.hpp"
#include "kernels/device_hash.hpp"
#include "src/base/checksum.hpp"
#include "src/base/data_type.hpp"
#include "src/base/device_stream.hpp"

namespace sparcl::collectives {

class DeviceArrayReader {
 public:
  // Of `count` elements, not 0. Pieces are whole blocks of the codec, but for the last.
  DeviceArrayReader(DeviceScratch& scratch, const std::byte* array, std::uint64_t count, DataType type, void* stream);
  ~DeviceArrayReader();
  DeviceArrayReader(const DeviceArrayReader&) = delete;
  DeviceArrayReader& operator=(const DeviceArrayReader&) = delete;

  // The memory that it takes.
  Status reserve();
  // hashes: sum() is wanted.
  Status begin(bool hashes);
  bool has_more() const { return next_byte_ < bytes_; }
  // next() would find nothing to do.
  bool is_waiting() const { return !has_to_enqueue() && !arrived_[half_].is_over(); }
  // The next piece, until the call after; empty: it is not there yet.
  Result<std::span<const std::byte>> next();
  // What the array adds to its state's hash: after the first piece.
  Hash128 sum() const;
  // After the last piece: two pieces of pinned memory, of so many bytes each, that are nobody's.
  std::byte* pieces() const { return pinned_ + kHashBytes; }
  std::size_t piece_bytes() const { return piece_bytes_; }

 private:
  static constexpr std::size_t kHashBytes = 256;  // before the pieces

  std::size_t next_bytes() const;
  bool has_to_enqueue() const { return enqueued_byte_ < bytes_ && enqueued_byte_ == next_byte_ + next_bytes(); }
  Status enqueue();

  DeviceScratch& scratch_;
  const std::byte* array_;
  std::uint64_t count_, bytes_;
  DataType type_;
  void* stream_;
  std::size_t piece_bytes_;  // most
  std::byte* pinned_ = nullptr;
  std::byte* device_hash_ = nullptr;
  std::uint64_t next_byte_ = 0;      // of the piece that next() gives
  unsigned half_ = 0;                // where it comes
  std::uint64_t enqueued_byte_ = 0;  // the one after those that were asked for
  unsigned enqueued_half_ = 0;
  std::array<DeviceEvent, 2> arrived_;
};

}  // namespace sparcl::collectives
