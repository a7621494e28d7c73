#pragma once
// A byte stream of unknown length, kept in segments of one size: received (or encoded) bytes land
// at their final place and can be sent on from there without a copy.

#include <cstdint>
#include <vector>

#include "src/base/segment_pool.hpp"

namespace sparcl {

class Staging {
 public:
  static constexpr std::size_t kSegmentBytes =
      sparcl::kSegmentBytes;  // a multiple of every fragment size

  // Makes [0, end_bytes) addressable; new bytes are uninitialised.
  void reserve(std::uint64_t end_bytes) {
    while (capacity_bytes() < end_bytes) segments_.push_back(take_segment());
  }

  std::uint64_t capacity_bytes() const { return segments_.size() * std::uint64_t{kSegmentBytes}; }

  // A slice that must lie inside one segment and inside the reserved range.
  Buffer slice(std::uint64_t first, std::size_t count) const {
    return segments_[first / kSegmentBytes].slice(first % kSegmentBytes, count);
  }

  // `count` bytes from `first` (inside the reserved range) as one piece: in place where they lie in
  // one segment, else copied to `scratch`, which is grown as needed.
  const std::byte* contiguous(std::uint64_t first, std::size_t count,
                              std::vector<std::byte>& scratch) const;
  // To where the caller has room for them.
  void copy(std::uint64_t first, std::size_t count, std::byte* to) const;

  // Puts memory of another's making in place of a segment: the next one, or one that is reserved.
  // At most kSegmentBytes; fewer where the stream ends in it.
  void adopt(std::uint64_t first, Buffer memory) {
    const std::size_t segment = first / kSegmentBytes;
    if (segment == segments_.size()) segments_.emplace_back();
    segments_[segment] = std::move(memory);
  }

  // Nothing is written from `end` on any more: the last segment takes about as much memory as it
  // has bytes.
  void fit(std::uint64_t end);

  // Lets go of the segments that lie wholly before `end`: they must not be asked for again.
  void release(std::uint64_t end) {
    for (; released_ < end / kSegmentBytes; ++released_) segments_[released_] = Buffer();
  }

  // Copies bytes in, reserving as needed.
  void write(std::uint64_t first, std::span<const std::byte> bytes);

 private:
  std::vector<Buffer> segments_;
  std::size_t released_ = 0;
};

}  // namespace sparcl
