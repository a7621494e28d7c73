#pragma once
// A byte stream of unknown length, in segments of one size. Received or encoded bytes are written
// to their final position and are sent on from there without a copy.

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

  // Makes [0, end_bytes) a range of segments without memory. One thread may adopt() that of later
  // ones while another uses earlier ones.
  void prepare(std::uint64_t end_bytes) {
    segments_.resize(static_cast<std::size_t>((end_bytes + kSegmentBytes - 1) / kSegmentBytes));
  }

  std::uint64_t capacity_bytes() const { return segments_.size() * std::uint64_t{kSegmentBytes}; }

  // A slice that must lie inside one segment and inside the reserved range.
  Buffer slice(std::uint64_t first, std::size_t count) const {
    return segments_[first / kSegmentBytes].slice(first % kSegmentBytes, count);
  }

  // `count` bytes from `first` (inside the reserved range) as one piece. Bytes in one segment are
  // not copied; else they are copied to `scratch`, which grows as needed.
  const std::byte* contiguous(std::uint64_t first, std::size_t count,
                              std::vector<std::byte>& scratch) const;
  // `to` has room for `count` bytes.
  void copy(std::uint64_t first, std::size_t count, std::byte* to) const;

  // Replaces a segment by memory that another component made: the next segment, or a reserved one.
  // At most kSegmentBytes; fewer if the stream ends in it.
  void adopt(std::uint64_t first, Buffer memory) {
    const std::size_t segment = first / kSegmentBytes;
    if (segment == segments_.size()) segments_.emplace_back();
    segments_[segment] = std::move(memory);
  }

  // Nothing is written from `end` on afterwards. The last segment shrinks to about its bytes.
  void fit(std::uint64_t end);

  // Releases the segments that lie wholly before `end`: they must not be read again.
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
