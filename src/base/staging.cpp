#include "src/base/staging.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace sparcl {

const std::byte* Staging::contiguous(std::uint64_t first, std::size_t count,
                                     std::vector<std::byte>& scratch) const {
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
    const std::size_t piece =
        std::min(count - done, kSegmentBytes - static_cast<std::size_t>(at % kSegmentBytes));
    std::memcpy(to + done, segments_[at / kSegmentBytes].data() + at % kSegmentBytes, piece);
    done += piece;
  }
}

void Staging::write(std::uint64_t first, std::span<const std::byte> bytes) {
  reserve(first + bytes.size());
  for (std::size_t done = 0; done < bytes.size();) {
    const std::uint64_t at = first + done;
    const std::size_t piece =
        std::min(bytes.size() - done, kSegmentBytes - static_cast<std::size_t>(at % kSegmentBytes));
    std::memcpy(segments_[at / kSegmentBytes].data() + at % kSegmentBytes, bytes.data() + done,
                piece);
    done += piece;
  }
}

void Staging::fit(std::uint64_t end) {
  constexpr std::size_t kWorthIt = kSegmentBytes / 4;  // heuristic
  const std::size_t last = end % kSegmentBytes;
  segments_.resize((end + kSegmentBytes - 1) / kSegmentBytes);
  if (last == 0 || kSegmentBytes - last < kWorthIt) return;
  Buffer fitted = Buffer::allocate(last);
  std::memcpy(fitted.data(), segments_.back().data(), last);
  segments_.back() = std::move(fitted);
}

}  // namespace sparcl
