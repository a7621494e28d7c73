#pragma once
// Takes a stream apart into its sections and puts it together again, with or without mending its
// checksums.

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "src/base/bytes.hpp"
#include "src/base/checksum.hpp"
#include "src/codec/wire.hpp"

namespace sparcl::codec {

using Bytes = std::vector<std::byte>;

struct RawSection {
  std::uint8_t tag = 0;
  Bytes content;
};

struct RawStream {
  Bytes prefix;
  std::vector<RawSection> sections;

  // The place of the n-th section (from 0) that has this tag, whatever its gap.
  std::size_t find(std::uint8_t tag, std::size_t n = 0) const {
    for (std::size_t i = 0; i < sections.size(); ++i) {
      if ((sections[i].tag & ~0x20) == tag && n-- == 0) return i;
    }
    throw std::runtime_error("the stream has no such section");
  }
  Bytes& content(std::uint8_t tag, std::size_t n = 0) { return sections[find(tag, n)].content; }
};

inline RawStream take_apart(const Bytes& bytes) {
  RawStream stream{{bytes.begin(), bytes.begin() + kPrefixBytes}, {}};
  ByteReader reader{std::span<const std::byte>(bytes).subspan(kPrefixBytes)};
  while (reader.remaining() > 0) {
    RawSection section;
    std::uint64_t length = 0;
    std::span<const std::byte> content;
    if (!reader.read(section.tag) || !reader.read_varint(length) ||
        !reader.read_bytes(length, content))
      throw std::runtime_error("no stream");
    section.content.assign(content.begin(), content.end());
    stream.sections.push_back(std::move(section));
  }
  return stream;
}

// Block sections in this mode.
inline std::size_t count_blocks(const Bytes& stream, unsigned mode) {
  const RawStream parts = take_apart(stream);
  return static_cast<std::size_t>(
      std::ranges::count_if(parts.sections, [&](const RawSection& section) {
        return is_block(section.tag) && mode_of(section.tag) == mode;
      }));
}

inline bool ends_in_crc(std::uint8_t tag) {
  return tag == kTagUpdateHeader || tag == kTagSparseHeader || tag == kTagChunkEnd ||
         tag == kTagEnd;
}

inline Bytes put_together(const RawStream& stream, bool mend = true) {
  ByteWriter out;
  out.write_bytes(stream.prefix);
  std::uint32_t crc = crc32c(stream.prefix);
  for (const RawSection& section : stream.sections) {
    const std::size_t first = out.bytes().size();
    out.write(section.tag);
    out.write_varint(section.content.size());
    if (ends_in_crc(section.tag) && section.content.size() >= kCrcBytes) {
      const std::span<const std::byte> content(section.content);
      out.write_bytes(content.first(content.size() - kCrcBytes));
      crc = crc32c(out.bytes().subspan(first), crc);
      if (mend)
        out.write(crc);
      else
        out.write_bytes(content.last(kCrcBytes));
    } else {
      out.write_bytes(section.content);
      crc = crc32c(out.bytes().subspan(first), crc);
    }
  }
  return out.take();
}

}  // namespace sparcl::codec
