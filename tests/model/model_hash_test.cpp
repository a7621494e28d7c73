#include "src/model/model_hash.hpp"

#include <gtest/gtest.h>

#include "src/model/checkpoint_writer.hpp"
#include "tests/model/model_support.hpp"

namespace sparcl::model {
namespace {

test::Tensors example() {
  test::Tensors tensors;
  test::add_tensor(tensors, "big", DataType::kBfloat16, {300, 301}, 1);
  test::add_tensor(tensors, "small", DataType::kFloat32, {7}, 2);
  test::add_tensor(tensors, "empty", DataType::kFloat32, {0}, 3);
  return tensors;
}

TEST(ModelHash, MapHoldsEveryElement) {
  const codec::BlockMap map = make_block_map(example().schema);
  EXPECT_EQ(map.element_count(), 300u * 301 + 7);
  EXPECT_EQ(map.byte_count(), 300u * 301 * 2 + 28);
  EXPECT_EQ(map.arrays().size(), 3u);
}

TEST(ModelHash, IsThatOfTheFile) {
  test::TempFolder folder;
  const test::Tensors tensors = example();
  ASSERT_TRUE(write_safetensors(folder / "x", tensors.schema, tensors.pointers(), {{"any", "thing"}}).ok());
  const Result<Checkpoint> file = Checkpoint::open(folder / "x");
  ASSERT_TRUE(file.ok());
  const Result<Hash128> hash = state_hash(tensors.schema, tensors.pointers());
  ASSERT_TRUE(hash.ok());
  EXPECT_EQ(*state_hash(*file), *hash);
  EXPECT_NE(*hash, Hash128{});
}

TEST(ModelHash, SeesEachByteAndTheSchema) {
  test::Tensors tensors = example();
  const Hash128 hash = *state_hash(tensors.schema, tensors.pointers());
  for (const auto& [tensor, byte] : {std::pair(0, 0), std::pair(0, 300 * 301 * 2 - 1), std::pair(0, 131072), std::pair(1, 27)}) {
    tensors.bytes[tensor][byte] ^= std::byte{1};
    EXPECT_NE(*state_hash(tensors.schema, tensors.pointers()), hash) << tensor << " " << byte;
    tensors.bytes[tensor][byte] ^= std::byte{1};
  }
  tensors.schema[2].name = "void";
  EXPECT_NE(*state_hash(tensors.schema, tensors.pointers()), hash);
}

TEST(ModelHash, RefusesAWrongNumberOfArrays) { EXPECT_FALSE(state_hash(example().schema, {}).ok()); }

}  // namespace
}  // namespace sparcl::model
