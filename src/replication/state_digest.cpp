#include "src/replication/state_digest.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "src/base/bytes.hpp"
#include "src/codec/block_view.hpp"
#include "src/replication/fields.hpp"

namespace sparcl::replication {
namespace {

constexpr std::string_view kStateContext = "sparcl state 1\n";

}  // namespace

StateDigest::StateDigest(const Hash128& schema_hash) {
  ByteWriter begin;
  begin.write_bytes(std::as_bytes(std::span(kStateContext)));
  write_hash(begin, schema_hash);
  sha_.update(begin.take());
}

Result<bool> StateDigest::step(const codec::BlockMap& map, const codec::ArrayInput& arrays, std::uint64_t most_blocks) {
  codec::BlockInput input;
  std::vector<codec::Piece> pieces;
  std::vector<std::byte> scratch;
  const std::uint64_t end = std::min(map.block_count(), next_block_ + most_blocks);
  for (; next_block_ < end; ++next_block_) {
    const DataType datatype = map.block(next_block_, pieces);
    const codec::BlockView view = input.read(arrays, codec::shape_of(datatype, pieces), pieces);
    const Result<Digest256> block = sha256_of(codec::whole_block(view, scratch));
    if (!block.ok()) return block.status();
    sha_.update(*block);
  }
  return end == map.block_count();
}

Result<Digest256> StateDigest::finish() {
  const Result<Sha256::Digest> digest = sha_.finish();
  if (!digest.ok()) return digest.status();
  Digest256 bytes;
  std::memcpy(bytes.data(), digest->data(), bytes.size());
  return bytes;
}

}  // namespace sparcl::replication
