#include "src/codec/frame_writer.hpp"

#include <array>
#include <cstring>

#include "src/base/bytes.hpp"
#include "src/base/checksum.hpp"
#include "src/codec/state_hash.hpp"

namespace sparcl::codec {
namespace {

constexpr std::size_t kMaxHeadBytes = 1 + 2 * kMaxVarintBytes;  // tag, length, gap

}  // namespace

std::byte* FrameWriter::reserve(std::size_t bytes, ByteSink& sink) {
  open_ = sink.reserve(bytes);
  return open_;
}

void FrameWriter::commit(std::size_t bytes, ByteSink& sink, std::size_t crc_field_bytes) {
  crc_ = crc32c({open_, bytes - crc_field_bytes}, crc_);
  if (crc_field_bytes > 0) store_le(open_ + bytes - crc_field_bytes, crc_);
  sink.commit(bytes);
  chunk_bytes_ += bytes;
  total_bytes_ += bytes;
}

void FrameWriter::write_prefix(StreamKind kind, ByteSink& sink) {
  std::byte* at = reserve(kPrefixBytes, sink);
  store_le(at, kMagic);
  store_le(at + 4, kWireVersion);
  store_le(at + 5, static_cast<std::uint8_t>(kind));
  store_le(at + 6, std::uint16_t{0});
  commit(kPrefixBytes, sink);
}

void FrameWriter::write_section(std::uint8_t tag, std::span<const std::byte> content,
                                ByteSink& sink) {
  std::byte* begin = reserve(kMaxHeadBytes + content.size(), sink);
  std::byte* at = begin;
  store_le(at++, tag);
  at += store_varint(at, content.size());
  if (!content.empty()) std::memcpy(at, content.data(), content.size());
  commit(static_cast<std::size_t>(at - begin) + content.size(), sink);
}

void FrameWriter::write_checked_section(std::uint8_t tag, std::span<const std::byte> content,
                                        ByteSink& sink) {
  std::byte* begin = reserve(kMaxHeadBytes + content.size() + kCrcBytes, sink);
  std::byte* at = begin;
  store_le(at++, tag);
  at += store_varint(at, content.size() + kCrcBytes);
  std::memcpy(at, content.data(), content.size());
  at += content.size();
  commit(static_cast<std::size_t>(at - begin) + kCrcBytes, sink, kCrcBytes);
}

std::byte* FrameWriter::begin_block(unsigned mode, std::uint64_t gap, std::size_t payload_bytes,
                                    ByteSink& sink, std::size_t trailer_bytes) {
  payload_bytes += trailer_bytes;
  std::array<std::byte, kMaxVarintBytes> gap_bytes;
  const std::size_t gap_size = gap == 0 ? 0 : store_varint(gap_bytes.data(), gap);
  std::byte* begin = reserve(kMaxHeadBytes + payload_bytes, sink);
  std::byte* at = begin;
  store_le(at++, static_cast<std::uint8_t>((gap == 0 ? kTagBlock : kTagBlockAfterGap) + mode));
  at += store_varint(at, gap_size + payload_bytes);
  std::memcpy(at, gap_bytes.data(), gap_size);
  at += gap_size;
  open_bytes_ = static_cast<std::size_t>(at - begin) + payload_bytes;
  return at;
}

void FrameWriter::end_block(const Hash128& old_values, const Hash128& new_values, ByteSink& sink) {
  commit(open_bytes_, sink);
  old_values_ = old_values_ + old_values;
  new_values_ = new_values_ + new_values;
  ++blocks_;
  ++chunk_blocks_;
}

void FrameWriter::end_chunk(ByteSink& sink) {
  if (chunk_blocks_ == 0) return;
  std::array<std::byte, kChunkEndBytes - kCrcBytes> content;
  store_le(content.data(), digest_of(old_values_));
  store_le(content.data() + 8, digest_of(new_values_));
  write_checked_section(kTagChunkEnd, content, sink);
  chunk_bytes_ = 0;
  chunk_blocks_ = 0;
  old_values_ = {};
  new_values_ = {};
}

}  // namespace sparcl::codec
