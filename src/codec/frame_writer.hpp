#pragma once
// Writes the sections of a stream, their CRCs and the digests of chunks.

#include <cstdint>
#include <span>

#include "src/codec/update.hpp"
#include "src/codec/wire.hpp"

namespace sparcl::codec {

class FrameWriter {
 public:
  void write_prefix(StreamKind kind, ByteSink& sink);
  void write_section(std::uint8_t tag, std::span<const std::byte> content, ByteSink& sink);
  // The same for sections whose last four bytes are a CRC; `content` excludes it.
  void write_checked_section(std::uint8_t tag, std::span<const std::byte> content, ByteSink& sink);

  // Begins a block: returns the address for its payload of exactly payload_bytes. The caller writes
  // it and trailer_bytes after it, then calls end_block().
  std::byte* begin_block(unsigned mode, std::uint64_t gap, std::size_t payload_bytes,
                         ByteSink& sink, std::size_t trailer_bytes = 0);
  // The sums of the block's values, with the block's key (state_hash.hpp).
  void end_block(const Hash128& old_values, const Hash128& new_values, ByteSink& sink);

  bool chunk_is_full() const { return chunk_bytes_ >= kChunkBytes; }
  // Does nothing if there was no block since the last chunk end.
  void end_chunk(ByteSink& sink);

  std::uint64_t total_bytes() const { return total_bytes_; }
  // Of all bytes written, without CRC fields.
  std::uint32_t crc() const { return crc_; }
  std::uint64_t blocks() const { return blocks_; }

 private:
  std::byte* reserve(std::size_t bytes, ByteSink& sink);
  void commit(std::size_t bytes, ByteSink& sink, std::size_t crc_field_bytes = 0);

  std::byte* open_ = nullptr;  // memory from the sink, not yet committed
  std::size_t open_bytes_ = 0;
  std::uint32_t crc_ = 0;  // of all bytes written, except CRC fields
  std::uint64_t chunk_bytes_ = 0;
  std::uint64_t total_bytes_ = 0;
  std::uint64_t blocks_ = 0;
  std::uint64_t chunk_blocks_ = 0;
  Hash128 old_values_;  // of the chunk
  Hash128 new_values_;
};

}  // namespace sparcl::codec
