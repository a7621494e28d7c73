#include "src/codec/state_hash.hpp"

#include "src/codec/update.hpp"

namespace sparcl::codec {
namespace {

template <class Take>
void hash_blocks(const BlockMap& map, const ArrayInput& arrays, std::uint64_t first,
                 std::uint64_t last, const kernels::KernelSet& kernels, const Take& take) {
  BlockInput input;
  std::vector<Piece> pieces;
  std::vector<std::byte> scratch;
  for (std::uint64_t index = first; index < last; ++index) {
    const DataType datatype = map.block(index, pieces);
    take(block_hash(input.read(arrays, shape_of(datatype, pieces), pieces), index, kernels,
                    scratch));
  }
}

}  // namespace

Hash128 blocks_hash(const BlockMap& map, const ArrayInput& arrays, std::uint64_t first,
                    std::uint64_t last, const kernels::KernelSet& kernels) {
  Hash128 sum;
  hash_blocks(map, arrays, first, last, kernels, [&](const Hash128& hash) { sum = sum + hash; });
  return sum;
}

void add_block_hashes(const BlockMap& map, const ArrayInput& arrays, std::uint64_t first,
                      std::uint64_t last, const kernels::KernelSet& kernels,
                      std::vector<Hash128>& hashes) {
  hash_blocks(map, arrays, first, last, kernels,
              [&](const Hash128& hash) { hashes.push_back(hash); });
}

Hash128 state_hash(const BlockMap& map, std::span<const std::byte* const> arrays,
                   const Hash128& schema_hash, const kernels::KernelSet& kernels) {
  const ArrayInput input{{arrays.begin(), arrays.end()}};
  return schema_hash + blocks_hash(map, input, 0, map.block_count(), kernels);
}

}  // namespace sparcl::codec
