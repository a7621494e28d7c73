#pragma once
// The stream as a list of sections: everything that can be refused of it without knowing what the
// sections mean.

#include "tests/codec/oracle/cursor.hpp"

namespace sparcl::oracle {

enum class Kind : std::uint8_t { kUpdate = 1, kSparse = 2 };

constexpr unsigned kUpdateHeader = 0x01;
constexpr unsigned kSparseHeader = 0x02;
constexpr unsigned kAttachment = 0x03;
constexpr unsigned kChunkEnd = 0x04;
constexpr unsigned kEnd = 0x05;
constexpr unsigned kClassTable = 0x07;
constexpr unsigned kBlock = 0x10;          // + mode
constexpr unsigned kBlockAfterGap = 0x30;  // + mode

constexpr unsigned kDense = 0;
constexpr unsigned kFresh = 1;
constexpr unsigned kVerbatim = 2;
constexpr unsigned kFlat = 3;
constexpr unsigned kClasses = 4;
constexpr unsigned kMixed = 5;
constexpr unsigned kTwoLevel = 6;
constexpr unsigned kTwoLevelVerbatim = 7;
constexpr unsigned kPacked = 8;
constexpr unsigned kPackedFresh = 9;
constexpr unsigned kCoded = 10;
constexpr unsigned kAdded = 11;
constexpr unsigned kFlatGroup = 12;
constexpr unsigned kTwoLevelGroup = 13;
constexpr unsigned kBlockSparse = 14;

struct Section {
  unsigned tag;
  std::span<const std::byte> content;  // without the crc, where the section has one

  bool is_block() const {
    return (tag >= kBlock && tag < 0x20) || (tag >= kBlockAfterGap && tag < 0x40);
  }
  bool has_gap() const { return tag >= kBlockAfterGap; }
  unsigned mode() const { return tag & 0x0f; }
};

// All sections that this version knows, in order: the header, perhaps an attachment, blocks and
// chunk ends, the end.
std::vector<Section> read_frame(std::span<const std::byte> stream, Kind kind);

}  // namespace sparcl::oracle
