#include "src/sparse/mask/mask.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sparcl::sparse {
namespace {

using ::testing::HasSubstr;

std::vector<std::uint64_t> indices_of(const Mask& mask) {
  std::vector<std::uint64_t> indices(mask.size());
  mask.write_indices(indices.data());
  return indices;
}

// Every window of the mask is packed and unpacked as by a plain loop over its indices.
void expect_packs(const Mask& mask) {
  const std::vector<std::uint64_t> indices = indices_of(mask);
  ASSERT_TRUE(std::is_sorted(indices.begin(), indices.end()));
  std::vector<std::uint16_t> array(mask.count());
  std::iota(array.begin(), array.end(), std::uint16_t{1});
  for (const kernels::KernelSet& kernels : kernels::all_cpu_kernels()) {
    for (const std::uint64_t first : {std::uint64_t{0}, mask.size() / 3, mask.size() / 2}) {
      for (const std::uint64_t n :
           {std::uint64_t{0}, std::uint64_t{1}, mask.size() / 5, mask.size() - first}) {
        if (n > mask.size() - first) continue;
        std::vector<std::uint16_t> packed(n), expected(n);
        for (std::uint64_t i = 0; i < n; ++i) expected[i] = array[indices[first + i]];
        mask.pack(reinterpret_cast<const std::byte*>(array.data()), first, n, DataType::kUint16,
                  kernels, reinterpret_cast<std::byte*>(packed.data()));
        ASSERT_EQ(packed, expected) << kernels.name << " " << first << " " << n;
        std::vector<std::uint16_t> written = array, wanted = array;
        for (std::uint64_t i = 0; i < n; ++i)
          packed[i] = wanted[indices[first + i]] = static_cast<std::uint16_t>(40'000 + i);
        mask.unpack(reinterpret_cast<const std::byte*>(packed.data()), first, n, DataType::kUint16,
                    kernels, reinterpret_cast<std::byte*>(written.data()));
        ASSERT_EQ(written, wanted) << kernels.name << " " << first << " " << n;
      }
    }
  }
}

TEST(Mask, OfIndices) {
  for (const std::vector<std::uint64_t>& indices :
       {std::vector<std::uint64_t>{},
        {0},
        {199'999},
        {0, 1, 65'535, 65'536, 65'537, 131'072, 199'999}}) {
    const Result<Mask> mask = Mask::of_indices(indices, 200'000);
    ASSERT_TRUE(mask.ok());
    EXPECT_EQ(indices_of(*mask), indices);
    expect_packs(*mask);
  }
}

TEST(Mask, AllIndicesAreAWholeArray) {
  std::vector<std::uint64_t> all(100'000);
  std::iota(all.begin(), all.end(), std::uint64_t{0});
  const Result<Mask> mask = Mask::of_indices(all, all.size());
  ASSERT_TRUE(mask.ok());
  EXPECT_EQ(indices_of(*mask), all);
  expect_packs(*mask);
}

TEST(Mask, RandomElementsAreExactlySoMany) {
  for (const std::uint64_t count : {0, 1, 2, 1'000, 65'536, 200'001}) {
    for (const double density : {0.0, 0.0001, 0.01, 0.5, 0.9, 1.0}) {
      Result<Mask> mask = Mask::random(count, density, 4);
      ASSERT_TRUE(mask.ok());
      EXPECT_EQ(mask->size(),
                static_cast<std::uint64_t>(std::llround(density * static_cast<double>(count))));
      EXPECT_EQ(indices_of(*mask).size(), mask->size());
      expect_packs(*mask);
    }
  }
}

TEST(Mask, RandomBlocksAreWholeButForTheLast) {
  for (const std::uint64_t block : {1, 3, 64, 1'000, 300'000}) {
    for (const double density : {0.0, 0.1, 0.5, 1.0}) {
      Result<Mask> mask = Mask::random_blocks(200'001, block, density, 4);
      ASSERT_TRUE(mask.ok());
      for (std::uint64_t step = 0; step < 4; ++step) {
        mask->set_step(step);
        const std::vector<std::uint64_t> indices = indices_of(*mask);
        ASSERT_EQ(indices.size(), mask->size());
        std::vector<std::uint64_t> in_block(200'001 / block + 1);
        for (const std::uint64_t i : indices) ++in_block[i / block];
        std::uint64_t chosen = 0;
        for (std::uint64_t b = 0; b * block < 200'001; ++b) {
          EXPECT_TRUE(in_block[b] == 0 || in_block[b] == std::min(block, 200'001 - b * block));
          chosen += in_block[b] != 0;
        }
        EXPECT_EQ(chosen, static_cast<std::uint64_t>(std::llround(
                              density * static_cast<double>((200'000 + block) / block))));
        expect_packs(*mask);
      }
    }
  }
}

TEST(Mask, StepsDrawAnewAndComeBack) {
  Result<Mask> mask = Mask::random(100'000, 0.01, 9);
  ASSERT_TRUE(mask.ok());
  const std::vector<std::uint64_t> first = indices_of(*mask);
  const std::uint64_t identity = mask->identity();
  mask->set_step(1);
  EXPECT_NE(indices_of(*mask), first);
  EXPECT_NE(mask->identity(), identity);
  mask->set_step(0);
  EXPECT_EQ(indices_of(*mask), first);
  EXPECT_EQ(mask->identity(), identity);
}

TEST(Mask, OfArraysBeyond32Bits) {
  const std::uint64_t count = (std::uint64_t{1} << 33) + 5;
  const std::vector<std::uint64_t> indices{0, 1, (std::uint64_t{1} << 32) - 1,
                                           std::uint64_t{1} << 32, count - 1};
  const Result<Mask> mask = Mask::of_indices(indices, count);
  ASSERT_TRUE(mask.ok());
  EXPECT_EQ(indices_of(*mask), indices);
  const Result<Mask> drawn = Mask::random(count, 1e-6, 1);
  ASSERT_TRUE(drawn.ok());
  EXPECT_EQ(drawn->size(), 8'590u);
  EXPECT_GT(indices_of(*drawn).back(), std::uint64_t{1} << 32);
}

TEST(Mask, RefusesWhatIsNone) {
  const std::vector<std::uint64_t> twice{3, 3}, beyond{10};
  EXPECT_THAT(std::string(Mask::of_indices(twice, 10).status().message()),
              HasSubstr("indices[0] = 3 is followed by 3"));
  EXPECT_THAT(std::string(Mask::of_indices(beyond, 10).status().message()),
              HasSubstr("indices[0] is 10"));
  EXPECT_FALSE(Mask::random(10, -0.1, 0).ok());
  EXPECT_FALSE(Mask::random(std::uint64_t{1} << 45, 0, 0).ok());
  EXPECT_FALSE(Mask::of_indices({}, ~std::uint64_t{0}).ok());
  EXPECT_EQ(Mask::random(10, -std::nan(""), 0).status().message(),
            "density is NaN: a share from 0 to 1 is needed");
  EXPECT_FALSE(Mask::random(10, 1.5, 0).ok());
  EXPECT_FALSE(Mask::random_blocks(10, 0, 0.5, 0).ok());
}

}  // namespace
}  // namespace sparcl::sparse
