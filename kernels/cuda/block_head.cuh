#pragma once
// The numbers at the front of an untrusted content (docs/reference/wire-format.md), as one thread
// reads them.

#include "kernels/cuda/device_work.hpp"

namespace sparcl::kernels::cuda {

// The first block of the superblock that contains a block, if the block is part of a block of
// classes.
struct SuperPlace {
  bool is_there;
  std::uint32_t first;
};
__device__ inline SuperPlace superblock_of(const BlockContent* blocks, std::uint32_t number) {
  for (std::uint32_t back = 0; back < kSuperBlocks && back <= number; ++back) {
    const std::uint32_t mode = blocks[number - back].mode;
    if (mode == kClassesBlock) return {true, number - back};
    if (mode != kClassesRest) break;
  }
  return {false, 0};
}

// The elements of the superblock in an array of `count`.
__device__ inline std::uint32_t superblock_elements(std::uint64_t count, std::uint32_t first) {
  const std::uint64_t left = count - first * kBlockElements;
  return static_cast<std::uint32_t>(
      left < kSuperBlocks * kBlockElements ? left : kSuperBlocks * kBlockElements);
}

constexpr unsigned kHeadBytes = 32;  // three varints of at most ten bytes, and two bytes

// The numbers of positions on two levels.
struct LevelHead {
  bool are_two = false;
  std::uint32_t long_count = 0;  // gaps of at least 2^long_shift elements
  unsigned long_shift = 0;
  unsigned short_shift = 0;  // bits of the remainders of the short gaps
};

struct BlockHead {
  BlockError error;
  std::uint32_t bytes;  // of the content
  std::uint32_t count;
  std::uint32_t sizes;  // steps that have a size
  std::uint32_t exponent;
  bool all;  // all steps have a size
  LevelHead levels = {};
};

// Reads the first bytes of a content, for one thread.
struct HeadReader {
  const unsigned char* bytes;
  std::uint32_t count;
  std::uint32_t at = 0;

  __device__ bool read_byte(std::uint32_t& value) {
    if (at == count) return false;
    value = bytes[at++];
    return true;
  }
  // Accepts only the shortest form, as ByteReader::read_varint.
  __device__ bool read_varint(std::uint64_t& value) {
    value = 0;
    for (unsigned i = 0; i < 10; ++i) {
      std::uint32_t byte = 0;
      if (!read_byte(byte) || (i == 9 && (byte & 0x7f) > 1)) return false;
      value |= std::uint64_t{byte & 0x7f} << (7 * i);
      if ((byte & 0x80) == 0) return i == 0 || byte != 0;
    }
    return false;
  }
};

constexpr bool is_on_two_levels(std::uint32_t mode) {
  return mode == kTwoLevelBlock || mode == kTwoLevelVerbatimBlock;
}
constexpr bool has_steps(std::uint32_t mode) {
  return mode == kFlatBlock || mode == kTwoLevelBlock;
}

// For `count` changes. False if the numbers are impossible.
__device__ inline bool read_levels(HeadReader& reader, std::uint32_t count, std::uint32_t elements,
                                   LevelHead& levels) {
  std::uint32_t shifts = 0;
  std::uint64_t long_count = 0;
  if (!reader.read_byte(shifts) || !reader.read_varint(long_count) || long_count > count)
    return false;
  levels = {true, static_cast<std::uint32_t>(long_count), shifts & 0x0f, shifts >> 4};
  return levels.short_shift <= levels.long_shift &&
         levels.long_count << levels.long_shift <= elements - count;
}

// Called by one thread: the numbers before the bits.
__device__ inline BlockHead read_head(HeadReader reader, std::uint32_t mode, std::uint32_t bytes,
                                      std::uint32_t elements, std::uint32_t element_bytes) {
  BlockHead head{BlockError::kNone, 0, elements, 0, 0, false};
  if (mode == kDenseBlock) {
    if (bytes != elements * element_bytes) head.error = BlockError::kLength;
    return head;
  }
  std::uint64_t count = 0;
  if (!reader.read_varint(count) || count == 0 || count > elements)
    return {BlockError::kCount, 0, 0, 0, 0, false};
  head.count = static_cast<std::uint32_t>(count);
  if (is_on_two_levels(mode) && !read_levels(reader, head.count, elements, head.levels))
    return {BlockError::kHead, 0, 0, 0, 0, false};
  if (has_steps(mode)) {
    std::uint32_t parameters = 0;
    std::uint64_t sizes = count;
    const bool is_read = reader.read_byte(parameters) && parameters < 0x80;
    head.all = (parameters & 0x40) != 0;
    head.exponent = parameters & 0x3f;
    const bool fits = is_read && (head.all || (reader.read_varint(sizes) && sizes <= count));
    if (!fits || (sizes == 0 && head.exponent != 0)) return {BlockError::kHead, 0, 0, 0, 0, false};
    head.sizes = static_cast<std::uint32_t>(sizes);
  }
  head.bytes = reader.at;
  return head;
}

}  // namespace sparcl::kernels::cuda
