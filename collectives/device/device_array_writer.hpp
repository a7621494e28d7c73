#pragma once
// An array of the host to device memory, piece by piece: one piece is on its way while the next is put into pinned memory.

#include <array>

#include "collectives/device/device_scratch.hpp"
#include "src/base/device_stream.hpp"

namespace sparcl::collectives {

class DeviceArrayWriter {
 public:
  // All of `from` comes to `to`. pinned: of two pieces of so many bytes.
  DeviceArrayWriter(const DeviceScratch& scratch, std::byte* to, const std::byte* from, std::uint64_t bytes, std::byte* pinned,
                    std::size_t piece_bytes, void* stream)
      : scratch_(scratch), to_(to), from_(from), bytes_(bytes), pinned_(pinned), piece_bytes_(piece_bytes), stream_(stream) {}

  // Goes on. False: not all is written.
  Result<bool> step();
  // step() would find nothing to do.
  bool is_waiting() const { return !has_left_[turn_ % 2].is_over(); }

 private:
  const DeviceScratch& scratch_;
  std::byte* to_;
  const std::byte* from_;
  std::uint64_t bytes_;
  std::byte* pinned_;
  std::size_t piece_bytes_;
  void* stream_;
  std::uint64_t written_bytes_ = 0;
  unsigned turn_ = 0;
  unsigned ended_turns_ = 0;
  std::array<DeviceEvent, 2> has_left_;  // each half of the pinned memory
};

}  // namespace sparcl::collectives
