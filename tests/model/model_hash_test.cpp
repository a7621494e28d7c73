#include "src/model/model_hash.hpp"

#include <gtest/gtest.h>

#include "src/model/checkpoint_writer.hpp"
#include "tests/model/model_support.hpp"

namespace sparcl::model {
namespace {

test::Tensors example_tensors() {
  test::Tensors tensors;
  test::add_tensor(tensors, "big", DataType::kBfloat16, {300, 301}, 1);
  test::add_tensor(tensors, "small", DataType::kFloat32, {7}, 2);
  test::add_tensor(tensors, "empty", DataType::kFloat32, {0}, 3);
  return tensors;
}

TEST(ModelHash, MapHoldsEveryElement) {
  const codec::BlockMap map = make_block_map(example_tensors().schema);
  EXPECT_EQ(map.element_count(), 300u * 301 + 7);
  EXPECT_EQ(map.byte_count(), 300u * 301 * 2 + 28);
  EXPECT_EQ(map.arrays().size(), 3u);
}

TEST(ModelHash, IsThatOfTheFile) {
  test::TempFolder folder;
  const test::Tensors tensors = example_tensors();
  ASSERT_TRUE(
      write_safetensors(folder / "x", tensors.schema, tensors.pointers(), {{"any", "thing"}}).ok());
  const Result<Checkpoint> file = Checkpoint::open(folder / "x");
  ASSERT_TRUE(file.ok());
  const Result<Hash128> hash = state_hash(tensors.schema, tensors.pointers());
  ASSERT_TRUE(hash.ok());
  EXPECT_EQ(*state_hash(*file), *hash);
  EXPECT_NE(*hash, Hash128{});
}

TEST(ModelHash, SeesEachByteAndTheSchema) {
  test::Tensors tensors = example_tensors();
  const Hash128 hash = *state_hash(tensors.schema, tensors.pointers());
  for (const auto& [tensor, byte] :
       {std::pair(0, 0), std::pair(0, 300 * 301 * 2 - 1), std::pair(0, 131072), std::pair(1, 27)}) {
    tensors.bytes[tensor][byte] ^= std::byte{1};
    EXPECT_NE(*state_hash(tensors.schema, tensors.pointers()), hash) << tensor << " " << byte;
    tensors.bytes[tensor][byte] ^= std::byte{1};
  }
  tensors.schema[2].name = "void";
  EXPECT_NE(*state_hash(tensors.schema, tensors.pointers()), hash);
}

TEST(ModelHash, RefusesAWrongNumberOfArrays) {
  EXPECT_FALSE(state_hash(example_tensors().schema, {}).ok());
  EXPECT_FALSE(xxh3_hash(example_tensors().schema, {}).ok());
  EXPECT_FALSE(weights_hash(example_tensors().schema, {}).ok());
}

TEST(ModelHash, Xxh3IsThatOfTheSchemaAndAllBytes) {
  const test::Tensors tensors = example_tensors();
  std::vector<std::byte> all = serialise(tensors.schema);
  for (const auto& bytes : tensors.bytes) all.insert(all.end(), bytes.begin(), bytes.end());
  EXPECT_EQ(*xxh3_hash(tensors.schema, tensors.pointers()), xxh3_128(all));
}

// Made by Python: hashlib.sha256(b"a.bias" + b"torch.bfloat16" + bytes(range(6)) + b"b" +
// b"torch.float8_e4m3fn" + b"\x07" + b"z" + b"torch.int64" + bytes(8)).
TEST(ModelHash, WeightsHashIsGrails) {
  test::Tensors tensors;
  test::add_tensor(tensors, "z", DataType::kInt64, {1}, 1);
  test::add_tensor(tensors, "a.bias", DataType::kBfloat16, {3}, 1);
  test::add_tensor(tensors, "b", DataType::kFloat8e4m3, {}, 1);
  std::fill(tensors.bytes[0].begin(), tensors.bytes[0].end(), std::byte{0});
  for (std::size_t i = 0; i < 6; ++i) tensors.bytes[1][i] = static_cast<std::byte>(i);
  tensors.bytes[2][0] = std::byte{7};
  EXPECT_EQ(trust::to_hex(*weights_hash(tensors.schema, tensors.pointers())),
            "663bcb880500824778686a9d2e0a113638dc252c6bc88c6cbd65ea34ec605306");
}

}  // namespace
}  // namespace sparcl::model
