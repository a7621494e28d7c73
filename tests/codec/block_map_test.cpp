#include "src/codec/block_map.hpp"

#include <gtest/gtest.h>

#include <random>

namespace sparcl::codec {
namespace {

// Every element once, in order, and blocks full but for the last of a run.
void check_map(const std::vector<ArraySpec>& specs) {
  const BlockMap map(specs);
  std::vector<std::uint64_t> next(specs.size(), 0);
  std::vector<Piece> pieces;
  std::uint64_t elements = 0;
  for (std::uint64_t b = 0; b < map.block_count(); ++b) {
    const DataType type = map.block(b, pieces);
    ASSERT_FALSE(pieces.empty());
    std::uint32_t offset = 0;
    for (const Piece& piece : pieces) {
      ASSERT_EQ(specs[piece.array].datatype, type);
      ASSERT_EQ(piece.offset, offset);
      ASSERT_GT(piece.count, 0u);
      ASSERT_EQ(piece.first, next[piece.array]);
      next[piece.array] += piece.count;
      offset += piece.count;
    }
    ASSERT_LE(offset, kBlockElements);
    elements += offset;
    if (offset < kBlockElements && b + 1 < map.block_count()) {
      std::vector<Piece> after;
      ASSERT_NE(map.block(b + 1, after), type) << "a short block ends a run";
    }
  }
  for (std::size_t i = 0; i < specs.size(); ++i)
    ASSERT_EQ(next[i], specs[i].count) << "array " << i;
  ASSERT_EQ(map.element_count(), elements);
}

TEST(BlockMap, CoversEachElementOnce) {
  using enum DataType;
  check_map({});
  check_map({{kInt8, 0}});
  check_map({{kInt8, 1}});
  check_map({{kInt8, 65536}});
  check_map({{kInt8, 65537}});
  check_map({{kInt8, 0},
             {kInt8, 65535},
             {kInt8, 0},
             {kInt8, 1},
             {kInt8, 0},
             {kInt8, 1},
             {kInt16, 0},
             {kInt8, 5},
             {kInt16, 7},
             {kInt8, 0}});
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<ArraySpec> specs(random() % 30);
    for (ArraySpec& spec : specs)
      spec = {random() % 3 == 0 ? kFloat32 : kBfloat16,
              random() % 4 == 0 ? random() % 300000 : random() % 50};
    check_map(specs);
  }
}

TEST(BlockMap, SmallArraysShareABlock) {
  const std::vector<ArraySpec> specs(1000, {DataType::kBfloat16, 50});
  const BlockMap map(specs);
  EXPECT_EQ(map.block_count(), 1u);
  EXPECT_EQ(map.byte_count(), 100000u);
}

TEST(BlockMap, FindsBlocksPast32Bits) {
  const std::vector<ArraySpec> specs{
      {DataType::kInt8, 3}, {DataType::kInt8, std::uint64_t{1} << 60}, {DataType::kInt8, 70000}};
  const BlockMap map(specs);
  std::vector<Piece> pieces;
  map.block(map.block_count() - 2, pieces);
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[0].array, 1u);
  EXPECT_EQ(pieces[0].count, 3u);
  EXPECT_EQ(pieces[0].first, (std::uint64_t{1} << 60) - 3);
  EXPECT_EQ(pieces[1].array, 2u);
  EXPECT_EQ(pieces[1].count, 65533u);
}

}  // namespace
}  // namespace sparcl::codec
