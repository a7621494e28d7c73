#pragma once
// Copies arrays of the host to device memory, piece by piece: one piece is in flight while the next
// is copied to pinned memory.

#include <array>
#include <span>

#include "src/device/device_scratch.hpp"
#include "src/device/device_spans.hpp"

namespace sparcl::device {

// Arrays of a map; all that is in `from` comes to `to`.
struct ArrayPair {
  std::span<std::byte* const> to;
  std::span<const std::byte* const> from;
};

class DeviceArrayWriter {
 public:
  // pinned: two pieces of this size, at least a block each.
  DeviceArrayWriter(const DeviceScratch& scratch, const codec::BlockMap& map,
                    const ArrayPair& arrays, std::byte* pinned, std::size_t piece_bytes,
                    void* stream)
      : scratch_(scratch),
        spans_(map),
        arrays_(arrays),
        pinned_(pinned),
        piece_bytes_(piece_bytes),
        stream_(stream) {}

  // Goes on. False: not all is written.
  Result<bool> step();
  // step() would find nothing to do.
  bool is_waiting() const { return !has_left_[turn_ % 2].is_over(); }

 private:
  Status start(std::uint64_t end_block);

  const DeviceScratch& scratch_;
  DeviceSpans spans_;
  ArrayPair arrays_;
  std::byte* pinned_;
  std::size_t piece_bytes_;
  void* stream_;
  std::uint64_t next_block_ = 0;
  unsigned turn_ = 0;
  unsigned ended_turns_ = 0;
  std::array<gpu::DeviceEvent, 2> has_left_;  // each half of the pinned memory
};

}  // namespace sparcl::device
