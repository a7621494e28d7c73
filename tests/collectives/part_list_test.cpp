#include "collectives/broadcast/part_list.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace sparcl::collectives {
namespace {

std::vector<std::uint64_t> parts(std::size_t count) {
  std::vector<std::uint64_t> hashes(count);
  std::iota(hashes.begin(), hashes.end(), 1);
  return hashes;
}

TEST(PartList, EqualListsHaveEqualSketches) {
  for (const std::size_t count : {0u, 1u, 2u, 5u, 1024u, 1025u, 3000u}) {
    EXPECT_FALSE(broadcast::first_difference(broadcast::sketch_of(parts(count)),
                                             broadcast::sketch_of(parts(count))))
        << count;
  }
}

TEST(PartList, TheRangeHoldsTheFirstDifference) {
  for (const std::size_t count : {1u, 2u, 7u, 100u, 3000u}) {
    for (std::size_t at = 0; at < count; at += 1 + at / 7) {
      std::vector<std::uint64_t> other = parts(count);
      for (std::size_t i = at; i < count; ++i) other[i] = 0;  // later differences do not matter
      const auto range = broadcast::first_difference(broadcast::sketch_of(parts(count)),
                                                     broadcast::sketch_of(other));
      ASSERT_TRUE(range) << count << " " << at;
      EXPECT_LE(range->first, at);
      EXPECT_GE(range->last, at);
      EXPECT_TRUE(range->last == UINT64_MAX ? range->first == 1024
                                            : range->last - range->first <= range->first / 2);
    }
  }
}

TEST(PartList, AMissingTailIsADifference) {
  for (const std::size_t count : {0u, 1u, 3u, 700u, 2000u}) {
    const auto range = broadcast::first_difference(broadcast::sketch_of(parts(count)),
                                                   broadcast::sketch_of(parts(count + 1)));
    ASSERT_TRUE(range) << count;
    EXPECT_LE(range->first, count);
    EXPECT_GE(range->last, count);
  }
}

TEST(PartList, OrderMatters) {
  std::vector<std::uint64_t> swapped = parts(6);
  std::swap(swapped[4], swapped[5]);
  const auto range =
      broadcast::first_difference(broadcast::sketch_of(parts(6)), broadcast::sketch_of(swapped));
  ASSERT_TRUE(range);
  EXPECT_EQ(range->first, 4u);
}

TEST(PartList, SaysWhatIsNotThere) {
  const broadcast::PartList list{broadcast::sketch_of(parts(5)), 5, [](std::uint64_t i) {
                                   return std::string(1, static_cast<char>('a' + i));
                                 }};
  EXPECT_EQ(list.describe({2, 2}), "tensor 2, here c");
  EXPECT_EQ(list.describe({2, 3}), "a tensor from 2 to 3, here c to d");
  EXPECT_EQ(list.describe({4, 5}), "tensor 4, here e");
  EXPECT_EQ(list.describe({3, UINT64_MAX}), "a tensor from 3 to 4, here d to e");
  EXPECT_EQ(list.describe({5, 7}), "tensor 5, which is not here");
  EXPECT_EQ(broadcast::PartList{}.describe({0, 0}), "tensor 0, which is not here");
}

}  // namespace
}  // namespace sparcl::collectives
