#include "src/replication/stream_digest.hpp"

#include <algorithm>

namespace sparcl::replication {

void StreamDigest::advance(const Staging& bytes, std::uint64_t end) {
  while (hashed_bytes_ < end) {
    const std::uint64_t in_segment = Staging::kSegmentBytes - hashed_bytes_ % Staging::kSegmentBytes;
    const std::uint64_t count = std::min(end - hashed_bytes_, in_segment);
    sha_.update(bytes.slice(hashed_bytes_, static_cast<std::size_t>(count)).bytes());
    hashed_bytes_ += count;
  }
}

Result<std::array<std::byte, 32>> StreamDigest::finish() {
  const Result<Sha256::Digest> digest = sha_.finish();
  if (!digest.ok()) return digest.status();
  std::array<std::byte, 32> bytes{};
  std::ranges::transform(*digest, bytes.begin(), [](std::uint8_t each) { return std::byte{each}; });
  return bytes;
}

}  // namespace sparcl::replication
