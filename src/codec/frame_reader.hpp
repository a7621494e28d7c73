#pragma once
// Finds the sections of an untrusted stream as it arrives, and checks their order, lengths and
// CRCs. The caller checks their contents.

#include <cstdint>
#include <string_view>
#include <vector>

#include "src/base/staging.hpp"
#include "src/base/status.hpp"
#include "src/codec/wire.hpp"

namespace sparcl::codec {

struct Section {
  std::uint8_t tag = 0;
  std::uint64_t first = 0;  // of its content, in the stream
  std::uint64_t bytes = 0;
};

// How many blocks before its own a block's section skips, and the bytes that say so.
struct Gap {
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;
};
Result<Gap> read_gap(const Staging& staging, const Section& section,
                     std::vector<std::byte>& scratch);

// The error of a stream, with its position.
Status corrupt_at(std::uint64_t at, std::string_view what);

class FrameReader {
 public:
  // wanted: the skippable section that next() reports; 0: none.
  explicit FrameReader(StreamKind kind, std::uint8_t wanted = 0) : kind_(kind), wanted_(wanted) {}

  // The next section whose bytes are all among the first `available` of the stream; `found` is
  // false if there is none yet. The CRCs of header, chunk end and end have been checked. The bytes
  // of other sections are checked by the chunk end that follows. Unknown sections that may be
  // skipped are not reported.
  Status next(const Staging& staging, std::uint64_t available, Section& section, bool& found);

  // After the header: goes on with the chunk that begins there. The sections before it are not
  // read. crc: of all bytes of the stream before it, without CRC fields. False: what was read
  // reaches further, or ends inside a chunk.
  bool go_on_at(std::uint64_t byte, std::uint32_t crc);
  // No section of a chunk has been read without the chunk's end.
  bool is_between_chunks() const { return has_header_ && !chunk_has_blocks_; }

  // All sections that begin before it have been reported or skipped.
  std::uint64_t position() const { return at_; }

  // An error unless the stream of stream_bytes is complete.
  Status finish(std::uint64_t stream_bytes) const;

 private:
  Status read_prefix(const Staging& staging, std::uint64_t available, bool& found);
  Status read_head(const Staging& staging, std::uint64_t available, Section& section, bool& found);
  Status check_tag(std::uint8_t tag) const;
  Status check_bytes(const Staging& staging, const Section& section);
  void note(std::uint8_t tag);
  void add_to_crc(const Staging& staging, std::uint64_t end);

  StreamKind kind_;
  std::uint8_t wanted_;
  std::uint64_t at_ = 0;       // everything before it has been reported or skipped
  std::uint64_t crc_at_ = 0;   // everything before it is in crc_, except CRC fields
  std::uint64_t checked_ = 0;  // everything before it has passed a CRC
  std::uint32_t crc_ = 0;
  std::uint64_t chunk_first_ = 0;
  bool has_prefix_ = false;
  bool has_header_ = false;
  bool may_attach_ = false;
  bool chunk_has_blocks_ = false;
  bool ended_ = false;
  std::vector<std::byte> scratch_;
};

}  // namespace sparcl::codec
