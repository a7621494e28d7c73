// The block routines that merge entries, run on the host against the host's sparse sums.

#include <gtest/gtest.h>

#include "tests/emulated/emulated_cuda.hpp"
#include "tests/emulated/entry_lists.hpp"
// After the emulation.
#include "kernels/cuda/merge_tile.cuh"

namespace sparcl::test {
namespace {

using namespace kernels::cuda;  // NOLINT: the routines under test
using kernels::DeviceEntries;
using namespace entries;  // NOLINT: what is merged

template <class V>
DeviceEntries device(List<V>& list, bool has_values) {
  return {list.indices.data(), has_values ? list.values.data() : nullptr, &list.count};
}

// What merge_entries() enqueues. The capacities may be more than there is.
template <class Value, class V>
List<V> merged(List<V>& a, std::uint64_t capacity_a, List<V>& b, std::uint64_t capacity_b,
               std::uint64_t seed) {
  constexpr bool kHasValues = !std::is_same_v<Value, NoValue>;
  List<V> out;
  out.indices.resize(capacity_a + capacity_b, 77);
  out.values.resize(capacity_a + capacity_b);
  out.count = 77;
  const std::uint64_t tiles = merge_tiles(capacity_a + capacity_b);
  std::vector<MergeSplit> splits(tiles + 1, {99, 99});
  std::vector<TileState> states(tiles, 99);
  std::uint32_t next_tile = 99;
  const MergeWork work{device(a, kHasValues),
                       device(b, kHasValues),
                       device(out, kHasValues),
                       capacity_a,
                       capacity_b,
                       splits.data(),
                       states.data(),
                       &next_tile};
  emulated::launch<emulated::NoShared>(static_cast<unsigned>(tiles / kThreads + 1), kThreads, seed,
                                       [&](emulated::NoShared&) { split_merge(work); });
  emulated::launch<MergeShared<Value>>(
      static_cast<unsigned>(tiles), kThreads, seed,
      [&](MergeShared<Value>& shared) { merge_tile(shared, work); });
  return out;
}

template <class K>
void check_merge(List<typename K::V> a, List<typename K::V> b, std::uint64_t seed,
                 std::uint64_t unused = 0) {
  SCOPED_TRACE(testing::Message() << a.count << " and " << b.count << " entries, seed " << seed
                                  << ", unused " << unused);
  using V = typename K::V;
  const List<V> wanted = merged_by_host<K>(a, b);
  expect_same(merged<V>(a, a.count + unused, b, b.count + unused, seed), wanted);
}

template <class K>
struct MergeRoutine : testing::Test {};
using MergedKinds =
    testing::Types<Kind<float, DataType::kFloat32>, Kind<double, DataType::kFloat64>,
                   Kind<std::uint32_t, DataType::kUint32>, Kind<std::uint64_t, DataType::kUint64>>;
TYPED_TEST_SUITE(MergeRoutine, MergedKinds);

// Around the borders of tiles, with few and with many that both have.
TYPED_TEST(MergeRoutine, IsTheHostsSum) {
  using V = typename TypeParam::V;
  std::uint64_t seed = 10;
  for (const std::size_t count :
       {0UL, 1UL, 9UL, 1151UL, 1152UL, 1153UL, 2303UL, 2304UL, 2305UL, 5000UL}) {
    for (const std::size_t other : {0UL, 1UL, 1152UL, 2304UL}) {
      ++seed;
      const std::uint64_t most = std::max<std::uint64_t>(2, 2 * std::max(count, other))
                                 << (seed % 3 * 3);
      check_merge<TypeParam>(random_list<V>(count, most, seed),
                             random_list<V>(other, most, seed + 1000), seed);
    }
  }
}

// Every place of a pair in a tile, and on both sides of its border.
TYPED_TEST(MergeRoutine, NoBorderGoesThroughAPair) {
  using V = typename TypeParam::V;
  for (const std::size_t before : {2302UL, 2303UL, 2304UL}) {
    List<V> a, b;
    for (std::uint64_t i = 0; i < before; ++i) (i % 3 == 0 ? a : b).indices.push_back(i);
    a.indices.push_back(before);
    b.indices.push_back(before);
    a.indices.push_back(before + 1);
    std::mt19937_64 random(before);
    for (List<V>* list : {&a, &b}) {
      list->count = list->indices.size();
      for (std::size_t i = 0; i < list->count; ++i) list->values.push_back(random_value<V>(random));
    }
    check_merge<TypeParam>(a, b, before);
    check_merge<TypeParam>(b, a, before);
  }
  const List<V> same = random_list<V>(5000, 9000, 5);  // pairs alone
  check_merge<TypeParam>(same, same, 6);
}

TYPED_TEST(MergeRoutine, TakesListsThatFollowEachOther) {
  using V = typename TypeParam::V;
  List<V> low = random_list<V>(3000, 6000, 1), high = random_list<V>(2500, 6000, 2);
  for (std::uint64_t& index : high.indices) index += std::uint64_t{1} << 40;
  check_merge<TypeParam>(low, high, 3);
  check_merge<TypeParam>(high, low, 4);
}

// Rubbish beyond the counts, in both lists and in the grid.
TYPED_TEST(MergeRoutine, CountsAreReadOnTheDevice) {
  using V = typename TypeParam::V;
  for (const std::size_t count : {0UL, 700UL, 2304UL}) {
    List<V> a = random_list<V>(count, 10'000, 7), b = random_list<V>(600, 10'000, 8);
    for (List<V>* list : {&a, &b}) {
      list->indices.resize(list->indices.size() + 5000, 3);
      list->values.resize(list->values.size() + 5000);
    }
    check_merge<TypeParam>(a, b, count, 5000);
  }
}

TYPED_TEST(MergeRoutine, AnyOrderOfTilesGivesTheSame) {
  using V = typename TypeParam::V;
  for (std::uint64_t seed = 100; seed < 105; ++seed)
    check_merge<TypeParam>(random_list<V>(12'000, 200'000, seed),
                           random_list<V>(11'000, 200'000, seed + 1), seed);
}

TEST(MergeRoutineIndices, GoWithoutValues) {
  List<float> a = random_list<float>(4000, 20'000, 1), b = random_list<float>(3000, 20'000, 2);
  const List<float> wanted = merged_by_host<Kind<float, DataType::kFloat32>>(a, b);
  const List<float> seen = merged<NoValue>(a, a.count, b, b.count, 3);
  ASSERT_EQ(seen.count, wanted.count);
  EXPECT_TRUE(std::equal(wanted.indices.begin(), wanted.indices.end(), seen.indices.begin()));
}

TEST(MergeRoutineIndices, ACountBeyondTheCapacityIsTheCapacity) {
  List<float> a = random_list<float>(100, 1000, 1), b = random_list<float>(100, 1000, 2);
  const List<float> wanted = merged_by_host<Kind<float, DataType::kFloat32>>(a, b);
  a.count = b.count = UINT64_MAX;
  expect_same(merged<float>(a, 100, b, 100, 3), wanted);
}

}  // namespace
}  // namespace sparcl::test
