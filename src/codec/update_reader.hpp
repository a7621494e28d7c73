#pragma once
// An update read without the arrays that it changes: its header, its end, and its blocks one by
// one.

#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/staging.hpp"
#include "src/codec/block_map.hpp"
#include "src/codec/block_mode.hpp"
#include "src/codec/group_decoder.hpp"
#include "src/codec/payload.hpp"
#include "src/codec/update_header.hpp"

namespace sparcl::codec {

class UpdateReader {
 public:
  struct Block {  // a section, and its location
    std::uint64_t index;
    std::uint64_t last;  // the block after it: a group is of several, though maybe not all change
    std::uint64_t first;
    std::uint32_t bytes;
    std::uint8_t mode;
  };

  // Checks everything in untrusted bytes that needs no arrays: every checksum, the order and
  // lengths of sections, totals. The whole stream lies in `staging`, which outlives the reader.
  static Result<UpdateReader> open(const Staging& staging, std::uint64_t bytes);

  const UpdateHeader& header() const { return header_; }
  const UpdateEnd& end() const { return end_; }
  std::span<const std::byte> attachment() const { return attachment_; }
  const std::optional<BlockMap>& map() const {
    return map_;
  }  // of its runs, if the update has them
  std::span<const Block> blocks() const { return blocks_; }

  // Decodes block `index` of a section, of this shape; `block` is valid until the next call. Blocks
  // of a group may have no change; they can only be read in order, and only if there is a map().
  // Unsupported for modes that need the held values.
  Status decode(const Block& at, std::uint64_t index, BlockShape shape,
                const kernels::KernelSet& kernels, DecodedBlock& block);

 private:
  explicit UpdateReader(const Staging& staging) : staging_(&staging) {}
  Status read(std::uint64_t bytes);
  Status read_section(std::uint8_t tag, std::uint64_t first, std::uint64_t bytes);
  Status read_block(std::uint8_t tag, std::uint64_t first, std::uint64_t bytes);
  Status add_group(std::uint64_t first, std::uint64_t bytes, std::uint8_t mode);
  const char* decode_grouped(const Block& at, std::uint64_t index, BlockShape shape,
                             const kernels::KernelSet& kernels, DecodedBlock& block);
  Status check() const;

  const Staging* staging_;
  UpdateHeader header_;
  UpdateEnd end_;
  std::vector<std::byte> attachment_;
  std::optional<BlockMap> map_;
  std::vector<Block> blocks_;
  std::uint64_t section_count_ = 0;  // of blocks
  std::uint64_t next_block_ = 0;
  std::vector<std::byte> scratch_;
  Payload payload_;
  GroupDecoder group_;
  bool group_is_read_ = false;
};

}  // namespace sparcl::codec
