#pragma once
// Blocks of mode classes, each of a superblock.

#include "tests/codec/oracle/blocks.hpp"

namespace sparcl::oracle {

constexpr std::size_t kSuperblock = 4;  // blocks

struct ExponentClass {
  std::uint64_t lowest;  // T
  unsigned e;
  bool all;
  std::uint64_t changes;  // as expected of 2^18 elements
  std::uint64_t exceptions;
  std::uint64_t elements;
};
using ClassTable = std::vector<ExponentClass>;

ClassTable read_class_table(std::span<const std::byte> content);

struct SuperChanges {
  std::uint64_t count = 0;       // k
  bool fits = true;              // each has found its element
  std::vector<Changes> changes;  // one a block
};

// `olds`: what is held of each of the blocks. content: behind the gap.
SuperChanges read_superblock(std::span<const std::byte> content, const ClassTable& table,
                             const std::vector<Block>& blocks, const std::vector<Values>& olds);

}  // namespace sparcl::oracle
