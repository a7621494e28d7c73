#include "src/codec/top_k.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace sparcl::codec {
namespace {

using Indices = std::vector<std::uint64_t>;

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

// By sorting all: NaN > infinity > finite, ties to the lower index, no zeros.
Indices reference(const std::vector<float>& values, std::uint64_t k) {
  Indices order;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!(values[i] == 0)) order.push_back(i);
  }
  const auto size = [&](std::uint64_t i) { return std::fabs(values[i]); };
  std::stable_sort(order.begin(), order.end(), [&](std::uint64_t a, std::uint64_t b) {
    if (std::isnan(values[a]) || std::isnan(values[b]))
      return std::isnan(values[a]) && !std::isnan(values[b]);
    return size(a) > size(b);
  });
  order.resize(std::min<std::size_t>(order.size(), k));
  std::sort(order.begin(), order.end());
  return order;
}

void expect_exact(const std::vector<float>& values, std::uint64_t k, std::string_view what) {
  const Indices expected = reference(values, k);
  for (const kernels::KernelSet& set : kernels::all_cpu_kernels()) {
    EXPECT_TRUE(top_k(bytes_of(values).data(), values.size(), DataType::kFloat32, k, set) ==
                expected)
        << what << ", k = " << k << ", " << set.name;
  }
}

std::vector<float> normal(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw;
  std::vector<float> values(count);
  for (float& value : values) value = draw(random);
  return values;
}

TEST(TopK, IsExactWhereItGuesses) {
  const std::vector<float> values = normal(300'000, 1);
  for (const std::uint64_t k :
       {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{599}, std::uint64_t{6000},
        std::uint64_t{300'000}, std::uint64_t{599'999}}) {
    expect_exact(values, k, "normal");
  }
}

TEST(TopK, TakesAllThatIsNotZero) {
  std::vector<float> values{0.0f, -0.0f, 3.0f, -1.0f, 0.0f, 2.0f};
  for (std::uint64_t k = 0; k < 9; ++k) expect_exact(values, k, "few");
  expect_exact({}, 3, "none");
  expect_exact(std::vector<float>(300'000, 0.0f), 10, "zeros");
}

TEST(TopK, BreaksTiesByTheLowerIndex) {
  std::vector<float> values(300'000, 1.0f);
  for (std::size_t i = 0; i < values.size(); i += 3) values[i] = -1.0f;
  for (std::size_t i = 5; i < values.size(); i += 1000) values[i] = 2.0f;
  for (const std::uint64_t k : {std::uint64_t{1}, std::uint64_t{299}, std::uint64_t{300},
                                std::uint64_t{301}, std::uint64_t{100'000}}) {
    expect_exact(values, k, "ties");
  }
}

TEST(TopK, PutsNansFirstAndAllAlike) {
  std::vector<float> values = normal(270'000, 2);
  values[1000] = std::numeric_limits<float>::infinity();
  values[2000] = -std::numeric_limits<float>::quiet_NaN();
  values[3000] = std::bit_cast<float>(0x7fffffffu);
  values[4000] = std::bit_cast<float>(0x7f800001u);
  for (std::uint64_t k = 1; k < 7; ++k) expect_exact(values, k, "NaN");
}

// All large values in one place, as in a gradient of one layer: the strata see them in the right
// share.
TEST(TopK, IsExactWhereTheLargeOnesLieTogetherOrGrow) {
  std::vector<float> values = normal(400'000, 3);
  for (std::size_t i = 350'000; i < 355'000; ++i) values[i] *= 100;
  expect_exact(values, 7000, "together");
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i + 1);  // each better than all before it
  expect_exact(values, 7000, "growing");
}

TEST(TopK, KnowsEveryDataType) {
  std::mt19937_64 random(4);
  for (const DataType type :
       {DataType::kInt8, DataType::kUint8, DataType::kInt16, DataType::kFloat16,
        DataType::kBfloat16, DataType::kInt32, DataType::kFloat64, DataType::kInt64,
        DataType::kUint64, DataType::kFloat8e4m3, DataType::kFloat8e5m2}) {
    std::vector<std::uint64_t> words(40'000);
    for (std::uint64_t& word : words) word = random();
    const std::byte* array = bytes_of(words).data();
    const std::uint64_t count = words.size() * 8 / element_bytes(type);
    const Indices expected = top_k(array, count, type, 1234, kernels::reference_kernels());
    EXPECT_EQ(expected.size(), 1234u);
    EXPECT_TRUE(std::is_sorted(expected.begin(), expected.end()));
    for (const kernels::KernelSet& set : kernels::all_cpu_kernels())
      EXPECT_TRUE(top_k(array, count, type, 1234, set) == expected) << set.name;
  }
}

}  // namespace
}  // namespace sparcl::codec
