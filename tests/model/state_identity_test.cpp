// The identity of a state, against its definition (docs/reference/wire-format.md).

#include "src/model/state_identity.hpp"

#include <gtest/gtest.h>

#include "src/model/model_hash.hpp"
#include "src/trust/hex.hpp"
#include "src/trust/sha256.hpp"

namespace sparcl::model {
namespace {

using Bytes = std::vector<std::byte>;

Bytes sha256(std::initializer_list<std::span<const std::byte>> parts) {
  trust::Sha256 sha;
  for (const auto& part : parts) sha.update(part);
  const auto digest = *sha.finish();
  const auto* bytes = reinterpret_cast<const std::byte*>(digest.data());
  return {bytes, bytes + digest.size()};
}

constexpr std::byte kLeaf{0}, kNode{1};
constexpr std::size_t kBlock = 65536;  // elements

// Two blocks and a half of bf16: the tree is ((a b) c).
TEST(StateIdentity, IsATreeOverTheBlocks) {
  constexpr std::size_t kCount = 2 * kBlock + kBlock / 2;
  const Schema schema{{"w", DataType::kBfloat16, {kCount}}};
  std::vector<std::uint16_t> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i) values[i] = static_cast<std::uint16_t>(i * 40503);
  const Bytes list = serialise(schema);
  const auto bytes = std::as_bytes(std::span(values));
  const auto leaf = [&](std::size_t first, std::size_t count) {
    return sha256({std::span(&kLeaf, 1), bytes.subspan(2 * first, 2 * count)});
  };
  const Bytes left = sha256({std::span(&kNode, 1), leaf(0, kBlock), leaf(kBlock, kBlock)});
  const Bytes root = sha256({std::span(&kNode, 1), left, leaf(2 * kBlock, kBlock / 2)});
  const std::string context = "sparcl state 2\n";
  const Bytes count{std::byte{3}, {}, {}, {}, {}, {}, {}, {}};
  const Bytes expected = sha256({std::as_bytes(std::span(context)), sha256({list}), count, root});

  StateIdentity identity(*sha256_of(list));
  const codec::BlockMap map = make_block_map(schema);
  const std::byte* const array = bytes.data();
  EXPECT_FALSE(*identity.step(map, {{array}}, 1));
  EXPECT_FALSE(*identity.step(map, {{array}}, 1));
  EXPECT_TRUE(*identity.step(map, {{array}}, 7));
  EXPECT_EQ(trust::hex_of(*identity.finish()), trust::hex_of(expected));
}

}  // namespace
}  // namespace sparcl::model
