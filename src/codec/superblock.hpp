#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "src/codec/block_map.hpp"

namespace sparcl::codec {

constexpr std::uint32_t kSuperBlocks = 4;

// Up to kSuperBlocks blocks of one run, counted from its start: what a class block covers.
struct Superblock {
  std::uint64_t first;  // blocks [first, last)
  std::uint64_t last;
  std::uint32_t elements;
};

constexpr bool has_classes(DataType type) {
  return type == DataType::kBfloat16 || type == DataType::kFloat16;
}

// The one that begins with block `index`, if one does, and has classes.
inline std::optional<Superblock> superblock_at(const BlockMap& map, std::uint64_t index) {
  const BlockMap::BlockRun run = map.run_of(index);
  if (!has_classes(run.datatype) || (index - run.first_block) % kSuperBlocks != 0)
    return std::nullopt;
  const std::uint64_t last = std::min(index + kSuperBlocks, run.end());
  return Superblock{index, last, static_cast<std::uint32_t>(run.elements(index, last))};
}

}  // namespace sparcl::codec
