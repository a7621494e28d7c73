#include "src/replication/state_digest.hpp"

#include <algorithm>
#include <string_view>

#include "src/base/bytes.hpp"
#include "src/codec/block_view.hpp"
#include "src/model/fields.hpp"

namespace sparcl::replication {
namespace {

constexpr std::string_view kStateContext = "sparcl state 1\n";

}  // namespace

Result<bool> StateDigest::step(const codec::BlockMap& map, const codec::ArrayInput& arrays,
                               std::uint64_t max_blocks) {
  codec::BlockInput input;
  std::vector<codec::Piece> pieces;
  std::vector<std::byte> scratch;
  const std::uint64_t first = of_blocks_.size(),
                      end = first + std::min(map.block_count() - first, max_blocks);
  for (std::uint64_t i = first; i < end; ++i) {
    const DataType datatype = map.block(i, pieces);
    const codec::BlockView view = input.read(arrays, codec::shape_of(datatype, pieces), pieces);
    SPARCL_ASSIGN_OR_RETURN(const Digest256 block, sha256_of(codec::whole_block(view, scratch)));
    of_blocks_.push_back(block);
  }
  return end == map.block_count();
}

Result<Digest256> StateDigest::finish() const {
  ByteWriter all;
  all.write_bytes(std::as_bytes(std::span(kStateContext)));
  model::write_hash(all, schema_hash_);
  all.write_bytes(std::as_bytes(std::span(of_blocks_)));
  return sha256_of(all.take());
}

}  // namespace sparcl::replication
