#pragma once
// Contracts of the kernels that code the codec's blocks in the arrays' memory
// (docs/reference/wire-format.md). They have the modes that need only lists and steps; classes:
// device_class_codec.hpp. Memory space: device. Each call enqueues on a stream, allocates nothing
// and does not wait. This header needs no CUDA.

#include <cstddef>
#include <cstdint>

namespace sparcl::kernels {

// The changes of an array, numbered through. Positions count from the start of a codec's block.
// Change i of block b has the number block_starts[b] + i.
struct DeviceChanges {
  std::uint16_t* positions;
  void* old_values;             // elements
  void* new_values;             // elements
  std::uint64_t* block_starts;  // of block_count() + 1: the last is how many there are, also where
                                // there is room for fewer
};

// The hash of a block's values at the changed positions, before and after, as if the rest were
// zeros (kernels/word_hash.hpp).
struct DeviceChangeHashes {
  std::uint64_t old_low, old_high, new_low, new_high;
};

// Modes, by their numbers in the format.
constexpr std::uint32_t kDenseBlock = 0;
constexpr std::uint32_t kVerbatimBlock = 2;
constexpr std::uint32_t kFlatBlock = 3;
constexpr std::uint32_t kClassesBlock =
    4;  // of floats of 16 bits: the first of a superblock's blocks
constexpr std::uint32_t kTwoLevelBlock = 6;
constexpr std::uint32_t kTwoLevelVerbatimBlock = 7;
constexpr std::uint32_t kClassesRest =
    0xfd;  // the other blocks of the superblock: they are in its content
constexpr std::uint32_t kNoBlock =
    0xff;  // the block is unchanged: it has no section and no content
constexpr std::uint32_t kLostBlock = 0xfe;  // encoding: there was no room for its changes

// The location of a block's content in a buffer of many. It is the content of the block's section
// without the old check. (The old check follows from the hash of the old values and from the
// block's number in its update, which kernels do not know.)
struct BlockContent {
  std::uint64_t offset;  // a multiple of kContentAlignment
  std::uint32_t bytes;
  std::uint32_t mode;
};
constexpr std::uint32_t kSuperBlocks =
    4;  // blocks of the codec that a block of classes covers; fewer at the end of a run
constexpr std::uint32_t kClassTableBytes =
    80;  // before the content of a block of classes: its table (class_counts.hpp), which is
         // believed. Its offset is that of the table, its bytes are without it
constexpr bool is_of_classes(const BlockContent& content) {
  return content.mode == kClassesBlock || content.mode == kClassesRest;
}
constexpr std::uint64_t kContentAlignment = 16;
constexpr std::uint64_t aligned_content(std::uint64_t bytes) {
  return (bytes + kContentAlignment - 1) / kContentAlignment * kContentAlignment;
}

// Contents of blocks in one buffer, aligned to 16 bytes: first those in classes, then the others,
// each in the order of their blocks.
struct DeviceContents {
  void* bytes;
  BlockContent*
      blocks;  // one for each block and one more: its offset is the end of the last content
  // Encoding only, in device memory: the end of the contents that are coded in classes already and
  // listed in `blocks`. nullptr: none.
  std::uint64_t* classes_end = nullptr;
};
// Upper bound of the bytes that encoding `changes` changes of `blocks` blocks writes. A mode is
// taken only if it beats verbatim. In verbatim a change takes its value and at most 16 bits of
// planes; by the choice of the divisor, also at most 4 bits in unary.
constexpr std::uint64_t max_coded_bytes(std::uint64_t changes, std::uint64_t blocks,
                                        std::size_t element_bytes) {
  constexpr std::uint64_t
      kListBytes = 3,
      kHeadBytes = 2 * kContentAlignment;  // a varint, the mode's own check, and what aligns it
  return changes * (element_bytes + kListBytes) + blocks * kHeadBytes;
}

// Errors of a block: of its content, down to kEnd; then of the caller's arguments.
enum class BlockError : std::uint32_t {
  kNone = 0,
  kCount,      // k = 0, k > n, or none
  kHead,       // parameters, sizes of gaps, more exceptions than changes, or a useless exponent
  kLength,     // a part longer than the rest, or a whole block of another length
  kPosition,   // past the block, or long gaps past their lists
  kException,  // past the changes
  kMagnitude,  // codes that end too late, or L + e > 63
  kStep,       // larger than the data type
  kEnd,        // bytes left, or padding that is not zero
  kNotHere,    // not in the buffer, or a mode without a kernel
  kNoRoom,     // more changes than room
  kBase,  // of classes: what is held has no element for a change. Not an error of the content, if
          // that is not the base
};

// The changes found in untrusted contents.
struct DecodedBlocks {
  DeviceChanges changes;   // against the values that the array holds
  std::uint64_t capacity;  // of changes
  DeviceChangeHashes*
      hashes;  // of each block: of a dense block, over all its elements; zeros after an error
  BlockError* errors;      // of each block
  std::uint64_t* refused;  // one number: not 0 if a block has an error
};

}  // namespace sparcl::kernels
