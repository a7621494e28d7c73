#include "tests/codec/oracle/frame.hpp"

#include <algorithm>

#include "tests/codec/oracle/hashes.hpp"

namespace sparcl::oracle {
namespace {

constexpr std::uint64_t kMaxContentBytes = std::uint64_t{8} << 20;
constexpr std::uint64_t kMaxChunkBytes = std::uint64_t{16} << 20;
constexpr unsigned kMaySkip = 0x80;

void read_prefix(ByteCursor& in, Kind kind) {
  refuse_if(in.number(4) != 0x43525053, "it does not begin with SPRC");
  refuse_if(in.number(1) != 1, "another version");
  refuse_if(in.number(1) != static_cast<unsigned>(kind), "another kind");
  refuse_if(in.number(2) != 0, "reserved bytes are not zero");
}

bool has_mode(Kind kind, unsigned mode) {
  if (kind == Kind::kSparse)
    return mode == kDense || mode == kVerbatim || mode == kTwoLevelVerbatim;
  return mode <= kAdded || (mode >= kFlatGroup && mode <= kBlockSparse);
}

bool is_known(const Section& section, Kind kind) {
  if (section.is_block()) return has_mode(kind, section.mode());
  if (section.tag == kUpdateHeader || section.tag == kAttachment || section.tag == kClassTable)
    return kind == Kind::kUpdate;
  if (section.tag == kSparseHeader) return kind == Kind::kSparse;
  return section.tag == kChunkEnd || section.tag == kEnd;
}

void check_order(const std::vector<Section>& before, const Section& section, Kind kind) {
  const unsigned header = kind == Kind::kUpdate ? kUpdateHeader : kSparseHeader;
  refuse_if(before.empty() != (section.tag == header), "the header is not first, or there are two");
  if (before.empty()) return;
  const Section& last = before.back();
  if (section.tag == kAttachment)
    refuse_if(last.tag != header, "an attachment does not follow the header");
  const auto is_of_chunk = [](const Section& each) {
    return each.is_block() || each.tag == kChunkEnd;
  };
  const auto block =
      std::find_if(before.rbegin(), before.rend(), is_of_chunk);  // or the end of the chunk before
  const bool has_blocks = block != before.rend() && block->is_block();
  if (section.tag == kChunkEnd) refuse_if(!has_blocks, "a chunk end follows no block");
  if (section.tag == kEnd) refuse_if(has_blocks, "no chunk end before the end");
}

bool ends_in_crc(unsigned tag) {
  return tag == kUpdateHeader || tag == kSparseHeader || tag == kChunkEnd || tag == kEnd;
}

// Of what ends in a crc.
std::uint64_t fixed_bytes(unsigned tag, Kind kind, std::uint64_t flags) {
  if (tag == kUpdateHeader) return 60;
  if (tag == kSparseHeader) return 8;
  if (tag == kChunkEnd) return 20;
  return kind == Kind::kUpdate ? 28 + 16 * (flags & 1) + 16 * (flags >> 1 & 1) : 28;
}

}  // namespace

std::vector<Section> read_frame(std::span<const std::byte> stream, Kind kind) {
  ByteCursor in(stream);
  read_prefix(in, kind);
  std::vector<Section> sections;
  std::uint64_t flags = 0;
  std::size_t chunk_begin = 0;
  std::size_t summed = 0;  // up to where `crc` goes
  std::uint32_t crc = 0;
  while (sections.empty() || sections.back().tag != kEnd) {
    Section section{static_cast<unsigned>(in.number(1)), {}};
    const std::uint64_t length = in.varint();
    refuse_if(length > kMaxContentBytes, "a section is too long");
    section.content = in.take(length);
    refuse_if(in.at() - chunk_begin > kMaxChunkBytes, "a chunk is too long");
    if (!is_known(section, kind)) {
      refuse_if(sections.empty() || (section.tag & kMaySkip) == 0,
                "an unknown section that must not be skipped");
      continue;
    }
    check_order(sections, section, kind);
    if (!ends_in_crc(section.tag)) {
      sections.push_back(section);
      continue;
    }
    refuse_if(length != fixed_bytes(section.tag, kind, flags),
              "a section of fixed size has another");
    crc = crc32c(stream.subspan(summed, in.at() - 4 - summed), crc);
    summed = in.at();
    refuse_if(ByteCursor(section.content.last(4)).number(4) != crc, "a crc differs");
    if (section.tag == kChunkEnd) chunk_begin = in.at();
    section.content = section.content.first(section.content.size() - 4);
    if (section.tag == kUpdateHeader) {
      flags = ByteCursor(section.content.last(4)).number(4);
      refuse_if(flags > 7, "flags that are not defined");
      refuse_if((flags & 4) != 0 && (flags & 3) != 3, "neither digests nor state hashes");
    }
    sections.push_back(section);
  }
  refuse_if(in.left() > 0, "bytes after the end");
  return sections;
}

}  // namespace sparcl::oracle
