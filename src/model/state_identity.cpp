#include "src/model/state_identity.hpp"

#include <algorithm>
#include <string_view>

#include "src/base/bytes.hpp"
#include "src/codec/block_view.hpp"
#include "src/model/checkpoint_source.hpp"
#include "src/model/model_hash.hpp"

namespace sparcl::model {
namespace {

constexpr std::string_view kIdentityContext = "sparcl state 2\n";
constexpr std::uint64_t kIdentityBlocks = 64;  // between two calls of the watch; heuristic

}  // namespace

Result<bool> StateIdentity::step(const codec::BlockMap& map, const codec::ArrayInput& arrays,
                                 std::uint64_t max_blocks) {
  codec::BlockInput input;
  std::vector<codec::Piece> pieces;
  std::vector<std::byte> scratch;
  const std::uint64_t first = of_blocks_.size(),
                      end = first + std::min(map.block_count() - first, max_blocks);
  for (std::uint64_t i = first; i < end; ++i) {
    const DataType datatype = map.block(i, pieces);
    const codec::BlockView view = input.read(arrays, codec::shape_of(datatype, pieces), pieces);
    SPARCL_ASSIGN_OR_RETURN(const Digest256 block, leaf_digest(codec::whole_block(view, scratch)));
    of_blocks_.push_back(block);
  }
  return end == map.block_count();
}

Result<Digest256> StateIdentity::finish() const {
  SPARCL_ASSIGN_OR_RETURN(const Digest256 root, root_of(of_blocks_));
  ByteWriter all;
  all.write_bytes(std::as_bytes(std::span(kIdentityContext)));
  all.write_bytes(schema_digest_);
  all.write(static_cast<std::uint64_t>(of_blocks_.size()));
  all.write_bytes(root);
  return sha256_of(all.take());
}

Result<Digest256> state_identity(const Schema& schema, const codec::ArrayInput& arrays,
                                 const FileWatch& watch) {
  const codec::BlockMap map = make_block_map(schema);
  SPARCL_ASSIGN_OR_RETURN(const Digest256 schema_digest, sha256_of(serialise(schema)));
  StateIdentity identity(schema_digest);
  for (bool is_whole = false; !is_whole;) {
    SPARCL_ASSIGN_OR_RETURN(is_whole, identity.step(map, arrays, kIdentityBlocks));
    SPARCL_RETURN_IF_ERROR(
        watch.part(identity.of_blocks().size(), map.block_count(), map.byte_count()));
  }
  if (arrays.source != nullptr) SPARCL_RETURN_IF_ERROR(arrays.source->status());
  return identity.finish();
}

Result<Digest256> state_identity(const Checkpoint& checkpoint, const FileWatch& watch) {
  const CheckpointSource source(checkpoint);
  return state_identity(checkpoint.schema(), source.input(), watch);
}

}  // namespace sparcl::model
