// The kernels on Kokkos views, bit for bit those of the CPU.

#include "sparcl/kokkos_kernels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/kernel_set.hpp"
#include "src/sparse/selection/selection.hpp"
#include "tests/kokkos/views.hpp"

namespace sparcl::test {
namespace {

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto* const begin = reinterpret_cast<const std::byte*>(values.data());
  return {begin, begin + values.size() * sizeof(T)};
}

template <class T>
struct Kernels : ::testing::Test {};
using Elements = ::testing::Types<float, double, std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(Kernels, Elements);

// Whole numbers with ties, and what is special.
template <class T>
std::vector<T> awkward(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<T> values(count);
  for (T& value : values) {
    const std::uint64_t kind = random() % 16;
    value = static_cast<T>(static_cast<int>(random() % 41) - 20);
    if (kind == 0) value = std::numeric_limits<T>::max();
    if (kind == 1) value = std::numeric_limits<T>::lowest();
    if constexpr (std::is_floating_point_v<T>) {
      if (kind == 2) value = -T{0};
      if (kind == 3) value = std::numeric_limits<T>::infinity();
      if (kind == 4 && seed % 2 == 0) value = -std::numeric_limits<T>::quiet_NaN();
      if (kind == 5) value = static_cast<T>(1e-40);
      if (kind > 5) value = static_cast<T>(random() % 1000) / 7;
    }
  }
  return values;
}

template <class T>
constexpr DataType type_of() {
  if constexpr (std::is_same_v<T, float>)
    return DataType::kFloat32;
  else if constexpr (std::is_same_v<T, double>)
    return DataType::kFloat64;
  else
    return sizeof(T) == 4 ? DataType::kInt32 : DataType::kInt64;
}

TYPED_TEST(Kernels, TopKWithFeedbackIsTheSelectionOfTheCollectives) {
  using T = TypeParam;
  const Space space;
  kokkos::TopK<Space> top_k(space);
  for (const std::size_t count : {0UL, 1UL, 2UL, 100UL, 5000UL, 70'001UL}) {
    for (const std::uint64_t k :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{17}, std::uint64_t{count / 2},
          std::uint64_t{count}, std::uint64_t{count + 5}}) {
      for (const std::uint64_t seed : {count + 1, count + 2}) {
        SCOPED_TRACE(testing::Message() << count << " elements, k " << k << ", seed " << seed);
        const std::vector<T> values = awkward<T>(count, seed),
                             before = awkward<T>(count, seed + 1000);
        std::vector<T> expected = before;
        sparse::Selection selection(type_of<T>(), kernels::cpu_kernels());
        const sparse::Selected selected =
            selection.select(reinterpret_cast<const std::byte*>(values.data()),
                             reinterpret_cast<std::byte*>(expected.data()), count, k);
        const std::vector<std::uint64_t> wanted(selected.indices.begin(), selected.indices.end());

        const Array<T> residual = to_view(before), taken("taken", k);
        const Indices indices("indices", k);
        const kokkos::Count<Space> found("found");
        kokkos::accumulate(space, to_view(values), residual);
        EXPECT_EQ(bytes_of(to_vector(residual)), bytes_of(expected));
        top_k.find(residual, k, indices, found);
        ASSERT_EQ(number(found), wanted.size());
        EXPECT_EQ(to_vector(indices, wanted.size()), wanted);
        kokkos::gather(space, residual, indices, found, taken);
        EXPECT_EQ(bytes_of(to_vector(taken, wanted.size())),
                  std::vector<std::byte>(selected.accumulators,
                                         selected.accumulators + wanted.size() * sizeof(T)));
        kokkos::clear_sent(space, indices, found, residual);
        for (const std::uint64_t index : wanted) expected[index] = 0;
        EXPECT_EQ(bytes_of(to_vector(residual)), bytes_of(expected));
      }
    }
  }
}

TYPED_TEST(Kernels, WhatHasChangedMakesTheOneTheOther) {
  using T = TypeParam;
  const Space space;
  for (const std::size_t count : {0UL, 1UL, 63UL, 4096UL, 100'003UL}) {
    for (const unsigned percent : {0U, 1U, 50U, 100U}) {
      const std::vector<T> base = awkward<T>(count, count + percent);
      std::vector<T> target = base;
      std::mt19937_64 random(count);
      std::vector<std::uint64_t> wanted;
      for (std::size_t i = 0; i < count; ++i) {
        if (random() % 100 >= percent) continue;
        reinterpret_cast<std::uint8_t*>(&target[i])[random() % sizeof(T)] ^=
            0x81;  // signs of zeros and bits of NaN, too
        wanted.push_back(i);
      }
      const Array<T> from = to_view(base), to = to_view(target), values("values", count);
      const Indices indices("indices", count);
      const kokkos::Count<Space> found("found");
      kokkos::find_changed(space, from, to, indices, found);
      ASSERT_EQ(number(found), wanted.size());
      EXPECT_EQ(to_vector(indices, wanted.size()), wanted);
      kokkos::gather(space, to, indices, found, values);
      kokkos::scatter(space, values, indices, found, from);
      EXPECT_EQ(bytes_of(to_vector(from)), bytes_of(target));
    }
  }
}

TYPED_TEST(Kernels, WhatIsLargeIsFoundAndNoMoreThanThereIsRoomFor) {
  using T = TypeParam;
  const Space space;
  const std::vector<T> values = awkward<T>(9001, 3);
  std::vector<std::uint64_t> wanted;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if constexpr (std::is_floating_point_v<T>) {
      if (!(std::abs(values[i]) < T{11})) wanted.push_back(i);  // NaN, too
    } else {
      if (values[i] >= 11 || values[i] <= -11) wanted.push_back(i);
    }
  }
  ASSERT_GT(wanted.size(), 100U);
  for (const std::size_t room : {values.size(), wanted.size(), std::size_t{50}, std::size_t{0}}) {
    const Indices indices("indices", room);
    const kokkos::Count<Space> found("found");
    kokkos::find_at_least(space, to_view(values), T{-11}, indices, found);
    EXPECT_EQ(number(found), wanted.size());
    std::vector<std::uint64_t> first(
        wanted.begin(),
        wanted.begin() + static_cast<std::ptrdiff_t>(std::min(room, wanted.size())));
    EXPECT_EQ(to_vector(indices, first.size()), first);
  }
}

TEST(KernelsOfBytes, ChangesOfElementsOfOneAndTwoBytes) {
  const Space space;
  std::vector<std::uint16_t> base(1000, 7), target = base;
  target[3] = 8;
  target[999] = 0xffff;
  const Indices indices("indices", 1000);
  const kokkos::Count<Space> found("found");
  kokkos::find_changed(space, to_view(base), to_view(target), indices, found);
  EXPECT_EQ(number(found), 2U);
  EXPECT_EQ(to_vector(indices, 2), (std::vector<std::uint64_t>{3, 999}));
  const std::vector<std::uint8_t> zeros(10), ones(10, 1);
  kokkos::find_changed(space, to_view(zeros), to_view(ones), indices, found);
  EXPECT_EQ(number(found), 10U);
}

}  // namespace
}  // namespace sparcl::test
