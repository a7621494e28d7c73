#pragma once
// The object beside an anchor that lets a reader of some tensors read only the anchor's chunks that
// have their blocks.
//
//   u32 "SPRX", u32 1, u64 leaves, u64 chunks + 1
//   32 bytes for each leaf of 1 MiB of the anchor: its digest (src/model/stream_digest.hpp)
//   for each chunk, and for what comes after the last one: u64 byte of the anchor where it begins,
//   u64 its first block, u32 CRC of the bytes before it (docs/reference/wire-format.md)
//
// All little endian. The leaves prove themselves by the anchor's digest. The rest is what the
// object's own digest says, which the anchor's record names.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/codec/update.hpp"
#include "src/store/version_record.hpp"

namespace sparcl::store {

// Of its key, which is else the anchor's.
inline constexpr const char* kIndexSuffix = ".index";
bool is_index_key(std::string_view key);

struct AnchorIndex {
  std::vector<model::Digest256> leaves;
  std::vector<codec::ChunkStart> chunks;
};

std::vector<std::byte> serialise(const AnchorIndex& index);

// At most so many bytes has the index of this anchor, and one that is read.
std::uint64_t max_index_bytes(const StoredObject& anchor);

// Of untrusted bytes. Corrupt: it is no index of this anchor of these tensors, and why. Chunks
// ascend, lie in the anchor, and have all blocks.
Result<AnchorIndex> parse_anchor_index(std::span<const std::byte> bytes, const StoredObject& anchor,
                                       const codec::BlockMap& map);

}  // namespace sparcl::store
