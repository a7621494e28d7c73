#include "src/model/block_sums.hpp"

#include <algorithm>

#include "src/codec/state_hash.hpp"

namespace sparcl::model {

BlockSums::BlockSums(const codec::BlockMap& map, std::span<const std::byte* const> arrays,
                     const Hash128& schema_hash, const kernels::KernelSet& kernels)
    : map_(map),
      arrays_(arrays.begin(), arrays.end()),
      schema_hash_(schema_hash),
      kernels_(kernels) {
  sums_.reserve(map.block_count() + 1);
  restart();
}

void BlockSums::restart() { sums_.assign(1, Hash128{}); }

bool BlockSums::step(std::uint64_t blocks) {
  const std::uint64_t end = next_block() + std::min(blocks, block_count() - next_block());
  for (std::uint64_t index = next_block(); index < end; ++index) {
    const DataType datatype = map_.block(index, pieces_);
    const codec::BlockView view{codec::shape_of(datatype, pieces_), pieces_, arrays_};
    sums_.push_back(sums_.back() + codec::block_hash(view, index, kernels_, scratch_));
  }
  return finished();
}

}  // namespace sparcl::model
