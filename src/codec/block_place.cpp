#include "src/codec/block_place.hpp"

#include <fmt/format.h>

namespace sparcl::codec {
namespace {

constexpr std::uint32_t kNamesShown = 3;

}  // namespace

std::string describe_blocks(const BlockMap& map, std::uint64_t first, std::uint64_t last,
                            const ArrayName& name) {
  const std::string blocks =
      first == last ? fmt::format("block {}", first) : fmt::format("blocks {} to {}", first, last);
  if (!name) return blocks;
  std::vector<Piece> pieces;
  map.block(first, pieces);
  const std::uint32_t begin = pieces.front().array;
  map.block(last, pieces);
  std::string names;
  std::uint32_t count = 0;
  for (std::uint32_t array = begin; array <= pieces.back().array; ++array) {
    if (map.arrays()[array].count == 0) continue;
    if (++count <= kNamesShown) names += (count > 1 ? ", " : "") + name(array);
  }
  if (count > kNamesShown) names += fmt::format(" and {} more", count - kNamesShown);
  return fmt::format("{} of {}", blocks, names);
}

}  // namespace sparcl::codec
