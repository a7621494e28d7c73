#include "src/codec/update_reader.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/bytes.hpp"
#include "src/codec/frame_reader.hpp"
#include "src/codec/layout.hpp"
#include "src/codec/superblock.hpp"

namespace sparcl::codec {
namespace {

// Modes of blocks that can be read without their old values.
bool needs_no_base(std::uint8_t mode) {
  return mode == kDenseMode.id || mode == kFreshMode.id || mode == kVerbatimMode.id ||
         mode == kFlatMode.id || mode == kMixedMode.id || mode == kTwoLevelMode.id ||
         mode == kTwoLevelVerbatimMode.id || mode == kPackedMode.id ||
         mode == kPackedFreshMode.id || is_group(mode);
}

}  // namespace

Result<UpdateReader> UpdateReader::open(const Staging& staging, std::uint64_t bytes) {
  UpdateReader reader(staging);
  SPARCL_RETURN_IF_ERROR(reader.read(bytes));
  return reader;
}

Status UpdateReader::read(std::uint64_t bytes) {
  FrameReader frame(StreamKind::kUpdate, kTagRuns);
  Status unchecked;  // of bytes whose checksum follows: the checksum reports damage best
  for (bool found = true; found;) {
    Section section;
    SPARCL_RETURN_IF_ERROR(frame.next(*staging_, bytes, section, found));
    if (!found) break;
    const bool checked =
        section.tag == kTagUpdateHeader || section.tag == kTagChunkEnd || section.tag == kTagEnd;
    if (checked && !unchecked.ok()) return unchecked;
    const Status status = read_section(section.tag, section.first, section.bytes);
    if (checked) SPARCL_RETURN_IF_ERROR(status);
    if (unchecked.ok()) unchecked = status;
  }
  SPARCL_RETURN_IF_ERROR(frame.finish(bytes));
  return check();
}

Status UpdateReader::read_section(std::uint8_t tag, std::uint64_t first, std::uint64_t bytes) {
  if (is_block(tag)) return read_block(tag, first, bytes);
  const std::span<const std::byte> content(
      staging_->contiguous(first, static_cast<std::size_t>(bytes), scratch_),
      static_cast<std::size_t>(bytes));
  if (tag == kTagUpdateHeader) {
    const Result<UpdateHeader> header = parse_update_header(content.data());
    if (header.ok()) header_ = *header;
    return header.status();
  }
  if (tag == kTagAttachment) attachment_.assign(content.begin(), content.end());
  if (tag == kTagRuns) {
    if (map_ || !blocks_.empty())
      return corrupt_at(first, "the runs of arrays come twice, or after a block");
    SPARCL_ASSIGN_OR_RETURN(BlockMap map, parse_runs(content, header_.elements));
    map_ = std::move(map);
  }
  if (tag == kTagEnd) {
    const Result<UpdateEnd> end = parse_update_end(content, header_.flags);
    if (end.ok()) end_ = *end;
    return end.status();
  }
  return {};
}

Status UpdateReader::read_block(std::uint8_t tag, std::uint64_t first, std::uint64_t bytes) {
  SPARCL_ASSIGN_OR_RETURN(const Gap gap, read_gap(*staging_, {tag, first, bytes}, scratch_));
  first += gap.bytes;
  bytes -= gap.bytes;
  if (gap.blocks >= header_.elements - next_block_)
    return corrupt_at(first, "a block past the last");  // also keeps the sum below 2^64
  const auto mode = static_cast<std::uint8_t>(mode_of(tag));
  if (!find_block_mode(mode)->whole) {
    if (bytes < kOldCheckBytes) return corrupt_at(first, "a block ends before its check");
    bytes -= kOldCheckBytes;
  }
  next_block_ += gap.blocks;
  ++section_count_;
  if (is_group(mode)) return add_group(first, bytes, mode);
  blocks_.push_back({next_block_, next_block_ + 1, first, static_cast<std::uint32_t>(bytes), mode});
  ++next_block_;
  if (mode != kClassesMode.id || !map_ || next_block_ > map_->block_count()) return {};
  const auto superblock = superblock_at(*map_, next_block_ - 1);
  if (!superblock)
    return corrupt_at(first,
                      "a block of classes is no 16-bit float, or not the first of a superblock");
  next_block_ = superblock->last;
  return {};
}

Status UpdateReader::add_group(std::uint64_t first, std::uint64_t bytes, std::uint8_t mode) {
  const std::uint64_t blocks =
      bytes == 0
          ? 0
          : 1 + std::uint64_t{load_le<std::uint8_t>(staging_->contiguous(first, 1, scratch_))};
  const std::uint64_t begin = next_block_;
  if (blocks == 0 || blocks > header_.elements - begin ||
      (map_ && (begin >= map_->block_count() || begin + blocks > map_->run_of(begin).end()))) {
    return corrupt_at(first, "a group of blocks goes on past the last block of its type");
  }
  next_block_ += blocks;
  blocks_.push_back({begin, next_block_, first, static_cast<std::uint32_t>(bytes), mode});
  return {};
}

Status UpdateReader::check() const {
  const bool fits = end_.blocks == section_count_ && end_.changed <= end_.coded_elements &&
                    end_.coded_elements <= header_.elements;
  if (!fits)
    return Status(Code::kCorrupt, "the totals at the end are not those of the blocks before it");
  if (map_ && next_block_ > map_->block_count())
    return Status(Code::kCorrupt, "a block past the last");
  return {};
}

Status UpdateReader::decode(const Block& at, std::uint64_t index, BlockShape shape,
                            const kernels::KernelSet& kernels, DecodedBlock& block) {
  const BlockMode& mode = *find_block_mode(at.mode);  // the frame reader accepts only known modes
  if (!needs_no_base(at.mode)) {
    return Status(
        Code::kUnsupported,
        fmt::format("block {} is coded in mode {}, which only those who hold its base can read",
                    at.index, mode.name));
  }
  const char* wrong =
      is_group(at.mode)
          ? decode_grouped(at, index, shape, kernels, block)
          : mode.decode(shape, payload_.load(*staging_, at.first, at.bytes, mode.in_place), kernels,
                        block);
  if (wrong == nullptr) return {};
  return Status(Code::kCorrupt, fmt::format("block {} (mode {}, {} bytes at byte {}) {}", at.index,
                                            mode.name, at.bytes, at.first, wrong));
}

// Blocks are requested in order, so a group is read for its first block and kept for the others.
const char* UpdateReader::decode_grouped(const Block& at, std::uint64_t index, BlockShape shape,
                                         const kernels::KernelSet& kernels, DecodedBlock& block) {
  if (index == at.index) {
    const BlockMap::BlockRun run = map_->run_of(at.index);
    const std::span<const std::byte> bytes = payload_.load(*staging_, at.first, at.bytes, false);
    const std::uint64_t end = at.index + 1 + static_cast<std::uint8_t>(bytes[0]);
    group_is_read_ = false;
    const char* wrong = group_.read(kernels, at.mode, run.datatype,
                                    static_cast<std::uint32_t>(run.elements(at.index, end)), bytes);
    if (wrong != nullptr) return wrong;
    group_is_read_ = true;
  }
  if (!group_is_read_) return "is read out of order";
  group_.take(static_cast<std::uint32_t>(index - at.index), shape, block);
  return nullptr;
}

}  // namespace sparcl::codec
