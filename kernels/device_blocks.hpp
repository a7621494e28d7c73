#pragma once
// Contracts of the kernels that code the codec's blocks where the arrays are
// (docs/reference/wire-format.md; of the modes, those that need no more than lists and steps;
// classes: device_class_codec.hpp). Memory space: device; each call enqueues on a stream, allocates
// nothing and waits for nothing. Nothing of CUDA is needed to include this.

#include <cstddef>
#include <cstdint>

namespace sparcl::kernels {

// The changes of an array: they are numbered through, positions count from a codec's block's start.
// Change i of block b has the number block_starts[b] + i.
struct DeviceChanges {
  std::uint16_t* positions;
  void* old_values;             // elements
  void* new_values;             // elements
  std::uint64_t* block_starts;  // of block_count() + 1: the last is how many there are, also where
                                // there is room for fewer
};

// The hash of a block's values at the changed positions, as if the rest were zeros: before and
// after (kernels/word_hash.hpp).
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
constexpr std::uint32_t kClassesRest = 0xfd;  // the others: they are in its content
constexpr std::uint32_t kNoBlock =
    0xff;  // nothing of the block changes: it has no section, and no content
constexpr std::uint32_t kLostBlock = 0xfe;  // of encoding: there was no room for its changes

// Where a block's content, as its section has it but for the old check, lies in a buffer of many.
// (The old check follows from the hash of its old values, and from the block's number in its
// update, which kernels do not know.)
struct BlockContent {
  std::uint64_t offset;  // a multiple of kContentAlignment
  std::uint32_t bytes;
  std::uint32_t mode;
};
constexpr std::uint32_t kSuperBlocks =
    4;  // of the codec: those that a block of classes covers, or what is left of its run
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

// Contents of blocks in one buffer, aligned to 16 bytes: those of classes, then the others, each in
// the order of their blocks.
struct DeviceContents {
  void* bytes;
  BlockContent* blocks;  // of each, and one more: its offset is where the last content ends
  // Of encoding, in device memory: where the contents end that are here already, those of classes,
  // with their blocks. nullptr: none.
  std::uint64_t* classes_end = nullptr;
};
// At most the bytes that encoding `changes` changes of `blocks` blocks writes. A mode is taken
// where it beats verbatim, of which a change has its value, and of the list of positions at most 16
// bits in planes and, by the choice of its divisor, 4 in unary.
constexpr std::uint64_t max_coded_bytes(std::uint64_t changes, std::uint64_t blocks,
                                        std::size_t element_bytes) {
  constexpr std::uint64_t
      kListBytes = 3,
      kHeadBytes = 2 * kContentAlignment;  // a varint, the mode's own check, and what aligns it
  return changes * (element_bytes + kListBytes) + blocks * kHeadBytes;
}

// What is wrong with a block: with its content, down to kEnd; then with what the caller gave.
enum class BlockError : std::uint32_t {
  kNone = 0,
  kCount,  // k = 0, k > n, or none
  kHead,   // parameters, sizes of gaps, or more exceptions than changes, or an exponent without use
  kLength,     // a part that is longer than what is left, or a whole block of another length
  kPosition,   // past the block, or long gaps that are past their lists
  kException,  // past the changes
  kMagnitude,  // codes that end too late, or L + e > 63
  kStep,       // larger than the data type
  kEnd,        // bytes left, or padding that is not zero
  kNotHere,    // no bytes of the buffer, or a mode that has no kernel
  kNoRoom,     // more changes than there is room for
  kBase,  // of classes: what is held has no element for a change. Not an error of the content, if
          // that is not the base
};

// What is found in contents that nobody trusts.
struct DecodedBlocks {
  DeviceChanges changes;   // from what the array holds
  std::uint64_t capacity;  // of changes
  DeviceChangeHashes*
      hashes;  // of each block; of a dense block, of all its elements; of one with an error zeros
  BlockError* errors;      // of each block
  std::uint64_t* refused;  // one number: not 0 where a block has an error
};

}  // namespace sparcl::kernels
