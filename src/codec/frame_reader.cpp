#include "src/codec/frame_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "src/base/bytes.hpp"
#include "src/base/checksum.hpp"
#include "src/codec/block_mode.hpp"

namespace sparcl::codec {

Result<Gap> read_gap(const Staging& staging, const Section& section,
                     std::vector<std::byte>& scratch) {
  Gap gap;
  if (!has_gap(section.tag)) return gap;
  const auto size =
      static_cast<std::size_t>(std::min<std::uint64_t>(section.bytes, kMaxVarintBytes));
  ByteReader reader({staging.contiguous(section.first, size, scratch), size});
  if (!reader.read_varint(gap.blocks) || gap.blocks == 0)
    return corrupt_at(section.first, "a count of unchanged blocks is invalid");
  gap.bytes = reader.position();
  return gap;
}

Status corrupt_at(std::uint64_t at, std::string_view what) {
  return Status(Code::kCorrupt, fmt::format("byte {} of the stream: {}", at, what));
}

namespace {

bool ends_in_crc(std::uint8_t tag) {
  return tag == kTagUpdateHeader || tag == kTagSparseHeader || tag == kTagChunkEnd ||
         tag == kTagEnd;
}

// The length of sections that have a fixed one. The end has three lengths, which its reader checks.
std::uint64_t fixed_bytes(std::uint8_t tag) {
  switch (tag) {
    case kTagUpdateHeader:
      return kUpdateHeaderBytes;
    case kTagSparseHeader:
      return kSparseHeaderBytes;
    case kTagChunkEnd:
      return kChunkEndBytes;
    default:
      return 0;
  }
}

}  // namespace

Status FrameReader::next(const Staging& staging, std::uint64_t available, Section& section,
                         bool& found) {
  while (true) {
    found = false;
    if (ended_)
      return at_ == available ? Status()
                              : corrupt_at(at_, "there are bytes after the end of the update");
    if (!has_prefix_) {
      SPARCL_RETURN_IF_ERROR(read_prefix(staging, available, found));
      if (!found) return {};
      found = false;
    }
    SPARCL_RETURN_IF_ERROR(read_head(staging, available, section, found));
    if (!found) return {};
    SPARCL_RETURN_IF_ERROR(check_bytes(staging, section));
    at_ = section.first + section.bytes;
    if (section.tag == wanted_ && wanted_ != 0) return {};
    if ((section.tag & kTagMaySkip) != 0) continue;
    note(section.tag);
    return {};
  }
}

Status FrameReader::read_prefix(const Staging& staging, std::uint64_t available, bool& found) {
  found = available >= kPrefixBytes;
  if (!found) return {};
  const std::byte* prefix = staging.contiguous(0, kPrefixBytes, scratch_);
  if (load_le<std::uint32_t>(prefix) != kMagic)
    return corrupt_at(0, "this is no sparcl stream (it does not begin with SPRC)");
  if (const auto version = load_le<std::uint8_t>(prefix + 4); version != kWireVersion) {
    return corrupt_at(
        4, fmt::format("wire version {}; this library reads version {}", version, kWireVersion));
  }
  if (load_le<std::uint8_t>(prefix + 5) != static_cast<std::uint8_t>(kind_))
    return corrupt_at(5, "the stream is of another kind than expected");
  if (load_le<std::uint16_t>(prefix + 6) != 0) return corrupt_at(6, "reserved bytes are not zero");
  at_ = kPrefixBytes;
  has_prefix_ = true;
  return {};
}

Status FrameReader::read_head(const Staging& staging, std::uint64_t available, Section& section,
                              bool& found) {
  constexpr std::uint64_t kMaxHead = 1 + kMaxVarintBytes;
  if (available <= at_) return {};
  const auto size = static_cast<std::size_t>(std::min(available - at_, kMaxHead));
  ByteReader reader({staging.contiguous(at_, size, scratch_), size});
  if (!reader.read(section.tag)) return {};
  SPARCL_RETURN_IF_ERROR(check_tag(section.tag));
  if (!reader.read_varint(section.bytes))
    return size < kMaxHead ? Status() : corrupt_at(at_ + 1, "a length is no valid varint");
  section.first = at_ + reader.position();
  const std::uint64_t fixed = fixed_bytes(section.tag);
  if (section.bytes > kMaxSectionBytes || (fixed != 0 && section.bytes != fixed) ||
      (section.tag == kTagEnd && section.bytes < kEndBytes)) {
    return corrupt_at(at_ + 1, fmt::format("a section with tag {:#04x} cannot have {} bytes",
                                           section.tag, section.bytes));
  }
  if (section.first + section.bytes - chunk_first_ > kMaxChunkBytes)
    return corrupt_at(at_, "a chunk has more than 16 MiB");
  found = section.first + section.bytes <= available;
  return {};
}

Status FrameReader::check_tag(std::uint8_t tag) const {
  const std::uint8_t header = kind_ == StreamKind::kUpdate ? kTagUpdateHeader : kTagSparseHeader;
  if (has_header_ ? tag == header : tag != header)
    return corrupt_at(at_, "the header is missing or comes twice");
  if (tag == header || (tag & kTagMaySkip) != 0) return {};
  if (tag == kTagAttachment && kind_ == StreamKind::kUpdate) {
    return may_attach_
               ? Status()
               : corrupt_at(at_, "an attachment stands elsewhere than directly after the header");
  }
  if (tag == kTagChunkEnd)
    return chunk_has_blocks_ ? Status() : corrupt_at(at_, "a chunk end follows no block");
  if (tag == kTagClassTable && kind_ == StreamKind::kUpdate) return {};
  if (tag == kTagEnd)
    return chunk_has_blocks_ ? corrupt_at(at_, "the end does not follow a chunk end") : Status();
  const BlockMode* mode = is_block(tag) ? find_block_mode(mode_of(tag)) : nullptr;
  if (mode != nullptr && (mode->in_sparse || kind_ == StreamKind::kUpdate)) return {};
  return corrupt_at(
      at_, fmt::format("section tag {:#04x} is not known to wire version {}", tag, kWireVersion));
}

Status FrameReader::check_bytes(const Staging& staging, const Section& section) {
  const std::uint64_t end = section.first + section.bytes;
  if (!ends_in_crc(section.tag)) {
    add_to_crc(staging, end);
    return {};
  }
  add_to_crc(staging, end - kCrcBytes);
  if (load_le<std::uint32_t>(staging.contiguous(end - kCrcBytes, kCrcBytes, scratch_)) != crc_) {
    return corrupt_at(
        checked_,
        fmt::format("a checksum (CRC32C) differs, at the latest by byte {}: damaged on the way",
                    end));
  }
  // The CRC field itself is excluded: a CRC of bytes followed by their own CRC is always the same.
  crc_at_ = end;
  checked_ = end;
  if (section.tag == kTagChunkEnd) chunk_first_ = end;
  return {};
}

void FrameReader::note(std::uint8_t tag) {
  may_attach_ = !has_header_;
  has_header_ = true;
  if (is_block(tag)) chunk_has_blocks_ = true;
  if (tag == kTagChunkEnd) chunk_has_blocks_ = false;
  if (tag == kTagEnd) ended_ = true;
}

void FrameReader::add_to_crc(const Staging& staging, std::uint64_t end) {
  while (crc_at_ < end) {
    const std::uint64_t segment_left = Staging::kSegmentBytes - crc_at_ % Staging::kSegmentBytes;
    const auto piece = static_cast<std::size_t>(std::min(end - crc_at_, segment_left));
    crc_ = crc32c({staging.contiguous(crc_at_, piece, scratch_), piece}, crc_);
    crc_at_ += piece;
  }
}

bool FrameReader::go_on_at(std::uint64_t byte, std::uint32_t crc) {
  if (!is_between_chunks() || ended_ || byte < at_) return false;
  at_ = crc_at_ = checked_ = chunk_first_ = byte;
  crc_ = crc;
  may_attach_ = false;
  return true;
}

Status FrameReader::finish(std::uint64_t stream_bytes) const {
  if (!ended_)
    return corrupt_at(stream_bytes,
                      fmt::format("the stream is cut off ({} bytes could be read)", at_));
  if (at_ != stream_bytes) return corrupt_at(at_, "there are bytes after the end of the update");
  return {};
}

}  // namespace sparcl::codec
