// The block routines of sums over ranks, run on the host against what the host's collectives do.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/accumulate.hpp"
#include "src/sparse/parts/rank_tree.hpp"
#include "src/sparse/selection/candidates.hpp"
#include "src/sparse/selection/residual.hpp"
#include "tests/emulated/emulated_cuda.hpp"
// After the emulation.
#include "kernels/cuda/sum_block.cuh"
#include "tests/emulated/element_types.hpp"

namespace sparcl::test {
namespace {

using namespace kernels::cuda;  // NOLINT: the routines under test
using kernels::DeviceEntries;
using sparse::WireType;

template <class K>
struct SumRoutine : testing::Test {};
TYPED_TEST_SUITE(SumRoutine, AllTypes);

template <class K>
std::vector<typename K::Accumulator> values_of(std::size_t count, std::uint64_t seed) {
  using Accumulator = typename K::Accumulator;
  std::mt19937_64 random(seed);
  std::vector<Accumulator> values(count);
  for (Accumulator& value : values) {
    const std::uint64_t draw = random();
    value = draw % 3 == 0 ? emulated::value_of<Accumulator>(random())
                          : static_cast<Accumulator>(static_cast<std::int64_t>(draw % 2001) - 1000);
    if (std::is_floating_point_v<Accumulator> && draw % 11 == 0)
      value = std::numeric_limits<Accumulator>::infinity();
    value = K::E::canonical(value);
  }
  return values;
}

template <class T>
const std::byte* bytes_of(const std::vector<T>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}
template <class T>
std::byte* bytes_of(std::vector<T>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}
template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class Routine>
void run(std::uint64_t count, const Routine& routine) {
  emulated::launch<emulated::NoShared>(static_cast<unsigned>(entry_tiles(count)), kThreads, 3,
                                       [&](emulated::NoShared&) { routine(); });
}

template <class K>
WireType wire_of() {
  return {kernels::accumulator_type(K::kDataType), K::kDataType};
}

// As the host's receivers see what was sent.
template <class K>
std::vector<typename K::Accumulator> seen_by_host(
    const std::vector<typename K::Accumulator>& values) {
  const kernels::KernelSet& host = kernels::reference_kernels();
  std::vector<std::byte> sent(values.size() * element_bytes(K::kDataType));
  std::vector<typename K::Accumulator> seen(values.size());
  sparse::round_to_wire(host, wire_of<K>(), bytes_of(values), values.size(), sent.data());
  sparse::widen_from_wire(host, wire_of<K>(), sent.data(), values.size(), bytes_of(seen));
  return seen;
}

// Of lists of which each is wrong in another way only those that are none lose their entries.
TEST(SumRoutineLists, WhatIsNoListHasNoEntries) {
  constexpr std::uint64_t kCapacity = 1500, kElements = 10'000, kStride = 2 + kCapacity + 3;
  for (const std::uint64_t size : {0UL, 1UL, 1024UL, kCapacity}) {
    std::vector<std::uint64_t> words(6 * kStride, UINT64_MAX);
    for (std::uint64_t list = 0; list < 6; ++list) {
      words[list * kStride] = size;
      for (std::uint64_t i = 0; i < size; ++i) words[list * kStride + 2 + i] = 5 * i + list;
    }
    const std::uint64_t last = 2 + size - 1;
    words[0] = kCapacity + 1;
    if (size > 0) words[1 * kStride + last] = kElements;
    if (size > 0) words[5 * kStride + last] = kElements - 1;
    if (size > 1) words[2 * kStride + last] = words[2 * kStride + last - 1];
    if (size > 1) words[3 * kStride + last / 2 + 1] = 9'999;
    words[4 * kStride] = UINT64_MAX;
    std::vector<std::uint64_t> expected = words;
    expected[0] = expected[4 * kStride] = 0;
    if (size > 0) expected[kStride] = 0;
    if (size > 1) expected[2 * kStride] = expected[3 * kStride] = 0;
    const CheckWork work{
        {words.data(), 6, kStride * 8, kCapacity}, kElements, entry_tiles(kCapacity)};
    emulated::launch<emulated::NoShared>(static_cast<unsigned>(6 * work.list_tiles), kThreads, size,
                                         [&](emulated::NoShared&) { check_lists(work); });
    EXPECT_EQ(words, expected) << size;
  }
}

// As a result's elements, or what they are divided by the ranks.
TYPED_TEST(SumRoutine, LeavesTheMean) {
  using Accumulator = typename TypeParam::Accumulator;
  if (!std::is_floating_point_v<Accumulator>) return;
  constexpr std::size_t kCount = 1100;
  const kernels::KernelSet& host = kernels::reference_kernels();
  const DataType type = TypeParam::kDataType, accumulator = kernels::accumulator_type(type);
  for (const bool is_mean : {false, true}) {
    auto sums = values_of<TypeParam>(kCount, 3), residual = values_of<TypeParam>(kCount, 8),
         expected = residual;
    std::vector<std::uint64_t> indices(kCount);
    for (std::size_t i = 0; i < kCount; ++i) indices[i] = i;
    std::uint64_t count = kCount;
    auto means = sums;
    if (is_mean) sparse::divide_accumulators(host, type, bytes_of(means), kCount, 3);
    means = seen_by_host<TypeParam>(means);
    if (!is_mean) sparse::divide_accumulators(host, accumulator, bytes_of(means), kCount, 3);
    (void)sparse::leave_means(accumulator, bytes_of(means), kCount, bytes_of(expected));
    run(kCount, [&] {
      if constexpr (std::is_floating_point_v<Accumulator>) {
        leave_mean<TypeParam::kTopK>({{indices.data(), sums.data(), &count},
                                      kCount,
                                      is_mean ? 3U : 1U,
                                      is_mean ? 1U : 3U,
                                      residual.data()});
      }
    });
    EXPECT_TRUE(same(residual, expected)) << is_mean;
  }
}

TYPED_TEST(SumRoutine, RoundsAsTheWire) {
  for (const std::size_t count : {1UL, 1023UL, 1024UL, 2050UL}) {
    const auto values = values_of<TypeParam>(count, count);
    auto rounded = values_of<TypeParam>(count, 5);
    run(count, [&] { round_values<TypeParam::kTopK>({values.data(), rounded.data(), count}); });
    EXPECT_TRUE(same(rounded, seen_by_host<TypeParam>(values)));
  }
}

TYPED_TEST(SumRoutine, SumsRowsInTheRanksTree) {
  using Accumulator = typename TypeParam::Accumulator;
  constexpr std::size_t kCount = 1500;
  const DataType type = kernels::accumulator_type(TypeParam::kDataType);
  for (const std::size_t ranks : {1UL, 2UL, 3UL, 4UL, 5UL, 7UL, 8UL, 13UL}) {
    auto rows = values_of<TypeParam>(ranks * kCount, ranks);
    std::vector<const std::byte*> by_rank;
    const auto copy = rows;
    for (std::size_t rank = 0; rank < ranks; ++rank)
      by_rank.push_back(bytes_of(copy) + rank * kCount * sizeof(Accumulator));
    std::vector<Accumulator> wanted(kCount);
    sparse::RankTree(kernels::reference_kernels().reduce_of(type), {kernels::ReduceOp::kSum, false},
                     static_cast<int>(ranks))
        .reduce(by_rank, sizeof(Accumulator), kCount, bytes_of(wanted));
    run(kCount, [&] { sum_rows<Accumulator>({rows.data(), ranks, kCount}); });
    rows.resize(kCount);
    EXPECT_TRUE(same(rows, wanted)) << ranks << " ranks";
  }
}

// Of entries whose index is among those that are kept; of all.
TYPED_TEST(SumRoutine, LeavesWhatWasNotSent) {
  using Accumulator = typename TypeParam::Accumulator;
  constexpr std::size_t kCount = 1300;
  for (const bool keeps_some : {false, true}) {
    auto values = values_of<TypeParam>(kCount, 9);
    std::vector<std::uint64_t> indices(kCount), kept;
    for (std::size_t i = 0; i < kCount; ++i) {
      indices[i] = 3 * i + 1;
      if (i % 5 == 2) kept.insert(kept.end(), {3 * i, 3 * i + 1});
    }
    std::uint64_t count = kCount - 7, kept_count = kept.size();
    auto residual = values_of<TypeParam>(3 * kCount + 2, 4), expected = residual;
    std::vector<Accumulator> rest(values.begin(), values.end());
    std::vector<std::byte> sent(kCount * element_bytes(TypeParam::kDataType));
    const kernels::KernelSet& host = kernels::reference_kernels();
    sparse::round_to_wire(host, wire_of<TypeParam>(), bytes_of(values), kCount, sent.data());
    (void)sparse::leave_rest(host, wire_of<TypeParam>(), sent.data(), kCount, bytes_of(rest));
    for (std::size_t i = 0; i < count; ++i) {
      if (!keeps_some || i % 5 == 2) expected[indices[i]] = rest[i];
    }
    const DeviceEntries some{kept.data(), nullptr, &kept_count};
    const auto seen = seen_by_host<TypeParam>(values);
    run(kCount, [&] {
      leave_rest<Accumulator>({{indices.data(), values.data(), &count},
                               kCount,
                               seen.data(),
                               keeps_some ? some : DeviceEntries{},
                               kept.size(),
                               residual.data()});
    });
    EXPECT_TRUE(same(residual, expected));
  }
}

// Keys that order entries as the host's cut does, and none that is 0: what is no entry has that.
TYPED_TEST(SumRoutine, KeysOrderEntries) {
  if (TypeParam::kDataType == DataType::kUint64)
    return;  // its keys leave no room for those that are none
  auto values = values_of<TypeParam>(1100, 2);
  values[3] = 0;
  std::vector<std::uint64_t> keys(1100, 77), indices(1100);
  std::uint64_t count = 1050;
  run(1100, [&] {
    key_entries<TypeParam::kTopK>(
        {{indices.data(), values.data(), &count}, 1100, keys.data(), {}, 0});
  });
  const sparse::Candidates host(kernels::accumulator_type(TypeParam::kDataType));
  for (std::size_t i = 0; i < 1100; ++i)
    EXPECT_EQ(keys[i], i < 1050 ? host.key(bytes_of(values) + i * sizeof(values[0])) + 1 : 0);
}

TYPED_TEST(SumRoutine, TakesEntriesByPlace) {
  using Accumulator = typename TypeParam::Accumulator;
  auto values = values_of<TypeParam>(100, 2);
  std::vector<std::uint64_t> indices(100), places{4, 7, 99, 1, 1};
  for (std::size_t i = 0; i < 100; ++i) indices[i] = 10 * i;
  std::vector<Accumulator> kept(5, Accumulator{9});
  std::uint64_t count = 100, found = 3;
  run(5, [&] {
    take_entries<Accumulator>({{indices.data(), values.data(), &count},
                               100,
                               nullptr,
                               {places.data(), kept.data(), &found},
                               5});
  });
  EXPECT_EQ(places, (std::vector<std::uint64_t>{40, 70, 990, 1, 1}));
  EXPECT_TRUE(same(kept, {values[4], values[7], values[99], Accumulator{9}, Accumulator{9}}));
}

}  // namespace
}  // namespace sparcl::test
