#include "src/base/staging.hpp"

#include <algorithm>
#include <cstring>

namespace sparcl {

const std::byte* Staging::contiguous(std::uint64_t first, std::size_t count, std::vector<std::byte>& scratch) const {
  const std::size_t offset = first % kSegmentBytes;
  if (count == 0) return scratch.data();
  if (offset + count <= kSegmentBytes) return segments_[first / kSegmentBytes].data() + offset;
  if (scratch.size() < count) scratch.resize(count);
  copy(first, count, scratch.data());
  return scratch.data();
}

void Staging::copy(std::uint64_t first, std::size_t count, std::byte* to) const {
  for (std::size_t done = 0; done < count;) {
    const std::uint64_t at = first + done;
    const std::size_t piece = std::min(count - done, kSegmentBytes - static_cast<std::size_t>(at % kSegmentBytes));
    std::memcpy(to + done, segments_[at / kSegmentBytes].data() + at % kSegmentBytes, piece);
    done += piece;
  }
}

void Staging::write(std::uint64_t first, std::span<const std::byte> bytes) {
  reserve(first + bytes.size());
  for (std::size_t done = 0; done < bytes.size();) {
    const std::uint64_t at = first + done;
    const std::size_t piece = std::min(bytes.size() - done, kSegmentBytes - static_cast<std::size_t>(at % kSegmentBytes));
    std::memcpy(segments_[at / kSegmentBytes].data() + at % kSegmentBytes, bytes.data() + done, piece);
    done += piece;
  }
}

}  // namespace sparcl
