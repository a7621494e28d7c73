#pragma once
// The numbers of docs/reference/wire-format.md.

#include <cstddef>
#include <cstdint>

namespace sparcl::codec {

constexpr std::uint32_t kMagic = 0x43525053;  // "SPRC"
constexpr std::uint8_t kWireVersion = 1;      // frozen, as tests/codec/golden holds
constexpr std::size_t kPrefixBytes = 8;

enum class StreamKind : std::uint8_t { kUpdate = 1, kSparse = 2 };

enum Tag : std::uint8_t {
  kTagUpdateHeader = 0x01,
  kTagSparseHeader = 0x02,
  kTagAttachment = 0x03,
  kTagChunkEnd = 0x04,
  kTagEnd = 0x05,
  kTagClassTable = 0x07,
  kTagBlock = 0x10,          // + mode
  kTagBlockAfterGap = 0x30,  // + mode
  kTagMaySkip = 0x80,        // flag
  kTagRuns = 0x86,
  kTagLeftOut = 0x88,
};

constexpr bool is_block(std::uint8_t tag) { return (tag & 0xd0) == kTagBlock; }
constexpr bool has_gap(std::uint8_t tag) { return (tag & 0x20) != 0; }
constexpr unsigned mode_of(std::uint8_t tag) { return tag & 0x0f; }

constexpr std::size_t kUpdateHeaderBytes = 60;
constexpr std::size_t kSparseHeaderBytes = 8;
constexpr std::size_t kChunkEndBytes = 20;
constexpr std::size_t kEndBytes = 28;  // plus 16 for each state hash
constexpr std::size_t kCrcBytes = 4;   // the last bytes of these four sections
constexpr std::size_t kOldCheckBytes =
    2;  // after the payload of an update's block that lists positions

constexpr std::uint32_t kFlagBaseHash = 1;
constexpr std::uint32_t kFlagTargetHash = 2;
constexpr std::uint32_t kFlagNoDigests =
    4;  // the base's values are unknown: chunks and blocks have no checks of them
constexpr std::uint32_t kFlags = kFlagBaseHash | kFlagTargetHash | kFlagNoDigests;

constexpr std::uint64_t kMaxSectionBytes = std::uint64_t{8} << 20;
constexpr std::uint64_t kMaxChunkBytes = std::uint64_t{16} << 20;
constexpr std::uint64_t kChunkBytes =
    std::uint64_t{1} << 20;  // where a writer ends a chunk: small chunks find damage early, and a
                             // 1 % change of 2^27 elements is still one fold per 20 blocks
constexpr std::uint64_t kSparseBlocks = std::uint64_t{1} << 48;

}  // namespace sparcl::codec
