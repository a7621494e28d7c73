// Noted changes come back array by array: each element once, ascending, in the array's own blocks.

#include "src/model/noted_changes.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace sparcl::model {
namespace {

using Elements = std::map<std::uint32_t, std::vector<std::uint64_t>>;

Elements elements_of(NotedChanges& noted) {
  Elements found;
  noted.for_each_array([&](const NotedChanges::OfArray& changes) {
    EXPECT_FALSE(found.contains(changes.array));
    for (std::size_t part = 0; part < changes.parts.size(); ++part) {
      EXPECT_LT(changes.parts[part].begin, changes.end(part));
      EXPECT_TRUE(part == 0 || changes.parts[part - 1].block < changes.parts[part].block);
      for (std::size_t i = changes.parts[part].begin; i < changes.end(part); ++i)
        found[changes.array].push_back(changes.element(part, i));
    }
  });
  return found;
}

TEST(NotedChanges, ComeArrayByArray) {
  const std::vector<codec::ArraySpec> specs = {
      {DataType::kFloat32, 100},  {DataType::kFloat32, 200'000}, {DataType::kFloat32, 0},
      {DataType::kFloat32, 7},    {DataType::kUint8, 65'536},    {DataType::kUint8, 131'073},
      {DataType::kFloat16, 1000}, {DataType::kFloat32, 1}};
  const codec::BlockMap map(specs);
  NotedChanges noted(map);
  std::mt19937_64 random(7);
  std::vector<codec::Piece> pieces;
  for (int round = 0; round < 4; ++round) {
    std::map<std::uint32_t, std::set<std::uint64_t>> expected;
    std::uint64_t count = 0;
    for (int i = 0; i < 1 + 4 * round; ++i) {  // in any order, and some again
      const std::uint64_t block = random() % map.block_count();
      (void)map.block(block, pieces);
      const std::uint32_t elements = pieces.back().offset + pieces.back().count;
      std::set<std::uint16_t> positions;
      for (int j = 0; j < 300 * round; ++j)
        positions.insert(static_cast<std::uint16_t>(random() % elements));
      const std::vector<std::uint16_t> list(positions.begin(), positions.end());
      noted.add(block, list);
      count += list.size();
      for (const codec::Piece& piece : pieces) {
        for (const std::uint16_t position : list) {
          if (position >= piece.offset && position < piece.offset + piece.count)
            expected[piece.array].insert(piece.first + position - piece.offset);
        }
      }
    }
    EXPECT_EQ(noted.count(), count);
    for (int twice = 0; twice < 2; ++twice) {
      const Elements found = elements_of(noted);
      EXPECT_EQ(found.size(), expected.size());
      for (const auto& [array, elements] : expected)
        EXPECT_EQ(found.at(array), std::vector<std::uint64_t>(elements.begin(), elements.end()))
            << "array " << array;
    }
    noted.clear();
    EXPECT_TRUE(elements_of(noted).empty());
  }
}

}  // namespace
}  // namespace sparcl::model
