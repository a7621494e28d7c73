// The kernels on floats of 16 bits, of all patterns of bits, and on small integers.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <type_traits>
#include <vector>

#include "kernels/kernel_set.hpp"
#include "sparcl/sparcl_kokkos.hpp"
#include "src/base/number.hpp"
#include "src/sparse/selection/selection.hpp"
#include "tests/kokkos/views.hpp"

namespace sparcl::test {
namespace halves {  // beside the other tests in one unit
namespace {

template <class T>
struct KernelsOfHalves : ::testing::Test {};
using Types = ::testing::Types<bfloat16, float16>;
TYPED_TEST_SUITE(KernelsOfHalves, Types);

template <class T>
constexpr DataType type_of() {
  return std::is_same_v<T, bfloat16> ? DataType::kBfloat16 : DataType::kFloat16;
}
template <class T>
const std::byte* bytes_of(const T& value) {
  return reinterpret_cast<const std::byte*>(&value);
}
template <class T>
float number_of(T value) {
  return static_cast<float>(load_number(type_of<T>(), bytes_of(value)));
}
std::uint32_t bits_of(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
template <class T>
std::uint32_t bits_of(T value) {
  return value.bits;
}
template <class T>
std::vector<std::uint32_t> all_bits(const std::vector<T>& values) {
  std::vector<std::uint32_t> bits;
  for (const T& value : values) bits.push_back(bits_of(value));
  return bits;
}

// The sum as the collectives have it: one NaN, no -0.
float sum_of(float a, float b) {
  const float sum = a + b;
  return std::isnan(sum) ? std::numeric_limits<float>::quiet_NaN() : sum + 0.0F;
}

constexpr std::size_t kPatterns = 65'536;

// All patterns, each beside `seed`'s: NaN with payloads, infinities, zeros of both signs,
// denormals.
template <class T>
std::vector<T> patterns(std::size_t factor, std::size_t shift) {
  std::vector<T> values(kPatterns);
  for (std::size_t i = 0; i < kPatterns; ++i)
    values[i].bits = static_cast<std::uint16_t>(i * factor + shift);
  return values;
}

TYPED_TEST(KernelsOfHalves, SumsAreRoundedOnceForAllPatterns) {
  using T = TypeParam;
  for (const std::size_t factor :
       {std::size_t{1}, std::size_t{3}, std::size_t{40'503}, kPatterns - 1}) {
    for (const std::size_t shift : {std::size_t{0}, std::size_t{0x8000}, std::size_t{12'345}}) {
      const std::vector<T> values = patterns<T>(1, 0), before = patterns<T>(factor, shift);
      std::vector<T> expected(kPatterns);
      for (std::size_t i = 0; i < kPatterns; ++i) {
        store_number(type_of<T>(), sum_of(number_of(before[i]), number_of(values[i])),
                     reinterpret_cast<std::byte*>(&expected[i]));
      }
      const Array<T> residual = to_view(before);
      kokkos::accumulate(Space(), to_view(values), residual);
      EXPECT_EQ(all_bits(to_vector(residual)), all_bits(expected)) << factor << " " << shift;
    }
  }
}

// The numbers that float has between two of 16 bits.
TYPED_TEST(KernelsOfHalves, FloatsAreRoundedToNearest) {
  using T = TypeParam;
  std::mt19937 random(7);
  for (int i = 0; i < 2'000'000; ++i) {
    std::uint32_t bits = random();
    if (i % 4 == 0) bits = (bits & 0x8fffffff) | 0x30000000;  // about what float16 has
    if (i % 8 == 1) bits &= 0xfffff000;                       // ties of both
    if (i % 16 == 3) bits = (bits & 0xffff0000) | 0x8000;
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    T expected{};
    store_number(type_of<T>(), value, reinterpret_cast<std::byte*>(&expected));
    ASSERT_EQ(kokkos::detail::rounded<T>(value).bits, expected.bits) << std::hexfloat << value;
  }
}

TYPED_TEST(KernelsOfHalves, TopKWithAResidualOfFloatIsTheSelectionOfTheCollectives) {
  using T = TypeParam;
  const Space space;
  kokkos::TopK<Space> top_k(space);
  for (const std::size_t count : {0UL, 1UL, 2UL, 100UL, 5000UL, 70'001UL}) {
    std::mt19937 random(static_cast<unsigned>(count));
    std::vector<T> values(count);
    std::vector<float> before(count);
    for (T& value : values) value.bits = static_cast<std::uint16_t>(random());
    for (float& value : before)
      value =
          random() % 2 == 0 ? 0.0F : static_cast<float>(static_cast<int>(random() % 100) - 50) / 7;
    for (const std::uint64_t k : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{17},
                                  std::uint64_t{count / 2}, std::uint64_t{count + 5}}) {
      SCOPED_TRACE(testing::Message() << count << " elements, k " << k);
      std::vector<float> expected = before;
      sparse::Selection selection(type_of<T>(), kernels::cpu_kernels());
      const sparse::Selected selected =
          selection.select(reinterpret_cast<const std::byte*>(values.data()),
                           reinterpret_cast<std::byte*>(expected.data()), count, k);
      const std::vector<std::uint64_t> wanted(selected.indices.begin(), selected.indices.end());
      const Array<float> residual = to_view(before);
      const Indices indices("indices", k);
      const kokkos::Count<Space> found("found");
      kokkos::accumulate(space, to_view(values), residual);
      EXPECT_EQ(all_bits(to_vector(residual)), all_bits(expected));
      top_k.find(residual, k, indices, found);
      ASSERT_EQ(number(found), wanted.size());
      EXPECT_EQ(to_vector(indices, wanted.size()), wanted);
    }
  }
}

TYPED_TEST(KernelsOfHalves, TopKIsTheSelectionOfTheCollectives) {
  using T = TypeParam;
  const Space space;
  kokkos::TopK<Space> top_k(space);
  for (const std::size_t count : {0UL, 1UL, 2UL, 100UL, 5000UL, 70'001UL}) {
    for (const std::uint16_t mask : {0xffff, 0xc3c3, 0x8000}) {  // any bits, many ties, zeros alone
      std::mt19937 random(static_cast<unsigned>(count));
      std::vector<T> values(count);
      for (T& value : values) value.bits = static_cast<std::uint16_t>(random() & mask);
      for (const std::uint64_t k :
           {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{17}, std::uint64_t{count / 2},
            std::uint64_t{count}, std::uint64_t{count + 5}}) {
        SCOPED_TRACE(testing::Message() << count << " elements, mask " << mask << ", k " << k);
        sparse::Selection selection(type_of<T>(), kernels::cpu_kernels());
        const sparse::Selected selected =
            selection.select(reinterpret_cast<const std::byte*>(values.data()), nullptr, count, k);
        const std::vector<std::uint64_t> wanted(selected.indices.begin(), selected.indices.end());
        const Array<T> array = to_view(values), taken("taken", k);
        const Indices indices("indices", k);
        const kokkos::Count<Space> found("found");
        top_k.find(array, k, indices, found);
        ASSERT_EQ(number(found), wanted.size());
        EXPECT_EQ(to_vector(indices, wanted.size()), wanted);
        kokkos::gather(space, array, indices, found, taken);
        const std::vector<T> got = to_vector(taken, wanted.size());
        for (std::size_t i = 0; i < wanted.size(); ++i)
          ASSERT_EQ(got[i].bits, values[wanted[i]].bits);
        kokkos::clear_sent(space, indices, found, array);
        kokkos::scatter(space, taken, indices, found, array);
        EXPECT_EQ(all_bits(to_vector(array)), all_bits(values));
      }
    }
  }
}

TYPED_TEST(KernelsOfHalves, WhatIsLargeIsFound) {
  using T = TypeParam;
  const Space space;
  const std::vector<T> values = patterns<T>(1, 0);
  const Array<T> array = to_view(values);
  const Indices indices("indices", kPatterns);
  const kokkos::Count<Space> found("found");
  for (const std::uint16_t least : {0x0001, 0x3c00, 0xbf80, 0x7c00, 0x7f80}) {
    if (std::isnan(number_of(T{least}))) continue;
    std::vector<std::uint64_t> wanted;
    for (std::size_t i = 0; i < kPatterns; ++i) {
      if (!(std::fabs(number_of(values[i])) < std::fabs(number_of(T{least})))) wanted.push_back(i);
    }
    kokkos::find_at_least(space, array, T{least}, indices, found);
    ASSERT_EQ(number(found), wanted.size());
    EXPECT_EQ(to_vector(indices, wanted.size()), wanted);
  }
}

TYPED_TEST(KernelsOfHalves, ChangesAreOfBits) {
  using T = TypeParam;
  const std::vector<T> base = patterns<T>(1, 0);
  std::vector<T> target = base;
  target[0].bits = 0x8000;       // -0
  target[0x7fff].bits = 0x7ffe;  // another NaN
  const Indices indices("indices", 5);
  const kokkos::Count<Space> found("found");
  kokkos::find_changed(Space(), to_view(base), to_view(target), indices, found);
  EXPECT_EQ(number(found), 2U);
  EXPECT_EQ(to_vector(indices, 2), (std::vector<std::uint64_t>{0, 0x7fff}));
}

// NaN with any payload are alike: ties, of which the first ones are taken.
TEST(KernelsOfFloats, NanAreTies) {
  const Space space;
  std::vector<float> values{1, 2, 3, 4};
  const std::uint32_t nan_bits[] = {0x7f800001, 0xffffffff, 0x7fc00000};
  for (int i = 0; i < 3; ++i)
    std::memcpy(&values[static_cast<std::size_t>(i)], &nan_bits[i], sizeof(float));
  const Indices indices("indices", 2);
  const kokkos::Count<Space> found("found");
  kokkos::TopK<Space>(space).find(to_view(values), 2, indices, found);
  EXPECT_EQ(number(found), 2U);
  EXPECT_EQ(to_vector(indices), (std::vector<std::uint64_t>{0, 1}));
}

template <class T>
struct KernelsOfSmallIntegers : ::testing::Test {};
using Integers = ::testing::Types<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t>;
TYPED_TEST_SUITE(KernelsOfSmallIntegers, Integers);

TYPED_TEST(KernelsOfSmallIntegers, WrapAroundAndRankByMagnitude) {
  using T = TypeParam;
  const Space space;
  std::mt19937 random(3);
  std::vector<T> values(3000), before(3000), expected(3000);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<T>(random());
    before[i] = static_cast<T>(random());
    expected[i] = static_cast<T>(values[i] + before[i]);
  }
  const Array<T> residual = to_view(before);
  kokkos::accumulate(space, to_view(values), residual);
  EXPECT_EQ(to_vector(residual), expected);
  for (const std::uint64_t k : {1U, 100U, 2999U}) {
    std::vector<std::uint64_t> wanted(expected.size());
    std::iota(wanted.begin(), wanted.end(), std::uint64_t{0});
    std::ranges::stable_sort(wanted, std::ranges::greater(),
                             [&](std::uint64_t i) { return std::abs(int{expected[i]}); });
    wanted.resize(k);
    std::erase_if(wanted, [&](std::uint64_t i) { return expected[i] == 0; });
    std::ranges::sort(wanted);
    const Indices indices("indices", k);
    const kokkos::Count<Space> found("found");
    kokkos::TopK<Space>(space).find(residual, k, indices, found);
    ASSERT_EQ(number(found), wanted.size());
    EXPECT_EQ(to_vector(indices, wanted.size()), wanted);
  }
}

}  // namespace
}  // namespace halves
}  // namespace sparcl::test
