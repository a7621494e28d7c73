#include "src/store/anchor_index.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "src/base/bytes.hpp"
#include "src/codec/wire.hpp"

namespace sparcl::store {
namespace {

constexpr std::uint32_t kIndexMagic = 0x58525053, kIndexFormat = 1;  // "SPRX"
constexpr std::uint64_t kIndexHeadBytes = 24, kRowBytes = 20;
constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{1} << 30;  // of an anchor of 20 TB

// A writer ends a chunk when it has 1 MiB, and the last one with the last block.
static_assert(codec::kChunkBytes == model::kLeafBytes);
std::uint64_t max_rows(const StoredObject& anchor) { return model::leaf_count(anchor.bytes) + 2; }

Status no_index(const std::string& why) {
  return Status(Code::kCorrupt, "it is no valid index of an anchor: " + why);
}

// Sizes come before memory.
Status check_head(std::span<const std::byte> bytes, const StoredObject& anchor) {
  if (bytes.size() < kIndexHeadBytes) return no_index("it is too short");
  if (load_le<std::uint32_t>(bytes.data()) != kIndexMagic)
    return no_index("it does not begin with SPRX");
  if (const auto format = load_le<std::uint32_t>(bytes.data() + 4); format != kIndexFormat)
    return no_index(fmt::format("its format is {}, and this library reads {}: update the library",
                                format, kIndexFormat));
  const auto leaves = load_le<std::uint64_t>(bytes.data() + 8),
             rows = load_le<std::uint64_t>(bytes.data() + 16);
  if (leaves != model::leaf_count(anchor.bytes))
    return no_index(fmt::format("it is of {} leaves, and the anchor has {}", leaves,
                                model::leaf_count(anchor.bytes)));
  if (rows == 0 || rows > max_rows(anchor))
    return no_index(fmt::format("it has {} chunks, and the anchor {} bytes", rows, anchor.bytes));
  const std::uint64_t expected =
      kIndexHeadBytes + leaves * sizeof(model::Digest256) + rows * kRowBytes;
  if (bytes.size() == expected) return {};
  return no_index(fmt::format("it has {} bytes, and its head says {}", bytes.size(), expected));
}

Status check_rows(const std::vector<codec::ChunkStart>& rows, const StoredObject& anchor,
                  const codec::BlockMap& map) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool ascends = i == 0
                             ? rows[i].block == 0 && rows[i].byte > 0
                             : rows[i].block > rows[i - 1].block && rows[i].byte > rows[i - 1].byte;
    if (!ascends || rows[i].byte >= anchor.bytes)
      return no_index(
          fmt::format("chunk {} begins with block {} at byte {}", i, rows[i].block, rows[i].byte));
  }
  if (rows.back().block == map.block_count()) return {};
  return no_index(
      fmt::format("its chunks have {} of {} blocks", rows.back().block, map.block_count()));
}

}  // namespace

bool is_index_key(std::string_view key) { return key.ends_with(kIndexSuffix); }

std::vector<std::byte> serialise(const AnchorIndex& index) {
  ByteWriter writer;
  writer.write(kIndexMagic);
  writer.write(kIndexFormat);
  writer.write(std::uint64_t{index.leaves.size()});
  writer.write(std::uint64_t{index.chunks.size()});
  for (const model::Digest256& leaf : index.leaves) writer.write_bytes(leaf);
  for (const codec::ChunkStart& chunk : index.chunks) {
    writer.write(chunk.byte);
    writer.write(chunk.block);
    writer.write(chunk.crc);
  }
  return writer.take();
}

std::uint64_t max_index_bytes(const StoredObject& anchor) {
  return std::min(kMaxIndexBytes, kIndexHeadBytes +
                                      model::leaf_count(anchor.bytes) * sizeof(model::Digest256) +
                                      max_rows(anchor) * kRowBytes);
}

Result<AnchorIndex> parse_anchor_index(std::span<const std::byte> bytes, const StoredObject& anchor,
                                       const codec::BlockMap& map) {
  SPARCL_RETURN_IF_ERROR(check_head(bytes, anchor));
  AnchorIndex index;
  index.leaves.resize(static_cast<std::size_t>(model::leaf_count(anchor.bytes)));
  const std::byte* at = bytes.data() + kIndexHeadBytes;
  for (model::Digest256& leaf : index.leaves) {
    std::memcpy(leaf.data(), at, leaf.size());
    at += leaf.size();
  }
  SPARCL_ASSIGN_OR_RETURN(const model::Digest256 root, model::root_of(index.leaves));
  if (root != anchor.digest) return no_index("its leaves are not those of the anchor (SHA-256)");
  for (; at < bytes.data() + bytes.size(); at += kRowBytes)
    index.chunks.push_back({load_le<std::uint64_t>(at), load_le<std::uint64_t>(at + 8),
                            load_le<std::uint32_t>(at + 16)});
  SPARCL_RETURN_IF_ERROR(check_rows(index.chunks, anchor, map));
  return index;
}

}  // namespace sparcl::store
