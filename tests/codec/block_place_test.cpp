#include "src/codec/block_place.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sparcl::codec {
namespace {

TEST(BlockPlace, NamesTheTensorsOfARange) {
  const std::vector<ArraySpec> arrays{{DataType::kBfloat16, 70000}, {DataType::kBfloat16, 0},
                                      {DataType::kBfloat16, 5},     {DataType::kBfloat16, 5},
                                      {DataType::kBfloat16, 5},     {DataType::kInt8, 7}};
  const BlockMap map(arrays);
  const ArrayName name = [](std::uint32_t array) {
    return std::string(1, static_cast<char>('a' + array));
  };
  EXPECT_EQ(describe_blocks(map, 0, 0, {}), "block 0");
  EXPECT_EQ(describe_blocks(map, 0, 2, {}), "blocks 0 to 2");
  EXPECT_EQ(describe_blocks(map, 0, 0, name), "block 0 of a");
  EXPECT_EQ(describe_blocks(map, 1, 1, name), "block 1 of a, c, d and 1 more");
  EXPECT_EQ(describe_blocks(map, 0, 2, name), "blocks 0 to 2 of a, c, d and 2 more");
  EXPECT_EQ(describe_blocks(map, 2, 2, name), "block 2 of f");
}

}  // namespace
}  // namespace sparcl::codec
