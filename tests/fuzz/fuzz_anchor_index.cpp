// The index of an anchor as bytes: refused, or exactly what it is written as, with chunks that lie
// in the anchor and have all blocks.

#include <algorithm>

#include "src/store/anchor_index.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace sparcl::fuzz {
namespace {

const codec::BlockMap& index_map() {
  static const std::vector<codec::ArraySpec> specs{{DataType::kBfloat16, 9 * 65536 + 7}};
  static const codec::BlockMap map(specs);
  return map;
}

// Of three leaves, whose digests are known.
struct IndexedAnchor {
  store::AnchorIndex index{{model::Digest256{std::byte{1}}, model::Digest256{std::byte{2}},
                            model::Digest256{std::byte{3}}},
                           {{68, 0, 1}, {1'100'000, 4, 2}, {2'200'000, 10, 3}}};
  store::StoredObject anchor{"anchors/x", 2 * model::kLeafBytes + 200'000,
                             *model::root_of(index.leaves)};
};
const IndexedAnchor& indexed() {
  static const IndexedAnchor made;
  return made;
}

void run(std::span<const std::byte> input) {
  const store::StoredObject& anchor = indexed().anchor;
  const Result<store::AnchorIndex> index = store::parse_anchor_index(input, anchor, index_map());
  if (!index.ok()) return;
  require(input.size() <= store::max_index_bytes(anchor), "it is as short as said");
  require(std::ranges::equal(store::serialise(*index), input), "an index has one form");
  std::uint64_t byte = 0;
  for (const codec::ChunkStart& chunk : index->chunks) {
    require(chunk.byte > byte && chunk.byte < anchor.bytes, "chunks ascend in the anchor");
    byte = chunk.byte;
  }
  require(
      index->chunks.front().block == 0 && index->chunks.back().block == index_map().block_count(),
      "chunks have all blocks");
}

std::vector<Bytes> seeds() { return {store::serialise(indexed().index)}; }

const Registration registration({"anchor_index", run, seeds});

}  // namespace
}  // namespace sparcl::fuzz
