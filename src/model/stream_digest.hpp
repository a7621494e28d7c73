#pragma once
// The digest of an update's bytes that its commit names: the root of a tree over leaves of 1 MiB.
// Each leaf can be checked as soon as it has come (docs/reference/protocol.md). Hashes, order and
// shape are those of RFC 9162, section 2.1.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "src/base/staging.hpp"
#include "src/base/status.hpp"

namespace sparcl::model {

using Digest256 = std::array<std::byte, 32>;

constexpr std::uint64_t kLeafBytes = std::uint64_t{1} << 20;
static_assert(Staging::kSegmentBytes % kLeafBytes == 0, "a leaf lies in one segment");

constexpr std::uint64_t leaf_count(std::uint64_t stream_bytes) {
  return stream_bytes / kLeafBytes + (stream_bytes % kLeafBytes != 0 ? 1 : 0);
}
// Bytes of the stream up to the end of its leaf `leaf`.
constexpr std::uint64_t leaf_end(std::uint64_t leaf, std::uint64_t stream_bytes) {
  const std::uint64_t end = (leaf + 1) * kLeafBytes;
  return end < stream_bytes ? end : stream_bytes;
}

// Each a SystemError where the library gives no SHA-256.
Result<Digest256> sha256_of(std::span<const std::byte> bytes);
Result<Digest256> leaf_digest(std::span<const std::byte> leaf);
Result<Digest256> root_of(std::span<const Digest256> leaves);

// The leaves of a stream while it is made.
class StreamDigest {
 public:
  // The first `end` bytes are final.
  Status advance(const Staging& bytes, std::uint64_t end);
  // Once: all `end` bytes are there.
  Status finish(const Staging& bytes, std::uint64_t end);
  std::vector<Digest256> take_leaves() { return std::move(leaves_); }

 private:
  Status add_leaf(const Staging& bytes, std::uint64_t end);

  std::vector<Digest256> leaves_;
};

}  // namespace sparcl::model
