#include "src/codec/state_hash.hpp"

#include "src/codec/update.hpp"

namespace sparcl::codec {

Hash128 state_hash(const BlockMap& map, std::span<const std::byte* const> arrays, const Hash128& schema_hash,
                   const kernels::KernelSet& kernels) {
  Hash128 sum = schema_hash;
  std::vector<Piece> pieces;
  std::vector<std::byte> scratch;
  for (std::uint64_t index = 0; index < map.block_count(); ++index) {
    const DataType datatype = map.block(index, pieces);
    sum = sum + block_hash(BlockView{shape_of(datatype, pieces), pieces, arrays}, index, kernels, scratch);
  }
  return sum;
}

}  // namespace sparcl::codec
