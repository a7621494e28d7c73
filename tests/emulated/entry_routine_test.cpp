// The block routines that write entries into an array and read them there, run on the host against
// the reference kernels.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/kernel_set.hpp"
#include "src/base/number.hpp"
#include "src/sparse/parts/rank_tree.hpp"
#include "tests/emulated/emulated_cuda.hpp"
// After the emulation.
#include "kernels/cuda/merge_tile.cuh"
#include "tests/emulated/element_types.hpp"

namespace sparcl::test {
namespace {

using namespace kernels::cuda;  // NOLINT: the routines under test
using kernels::DeviceEntries;

template <class K>
struct EntryRoutine : testing::Test {};
TYPED_TEST_SUITE(EntryRoutine, AllTypes);

// Patterns of any bits, and numbers around what the elements can hold: halves of their units, the
// least, the largest.
template <class K>
typename K::Accumulator random_accumulator(std::mt19937_64& random) {
  using Accumulator = typename K::Accumulator;
  if (random() % 2 == 0) return emulated::value_of<Accumulator>(random());
  auto bits = static_cast<typename K::Stored>(random());
  Accumulator value;
  kernels::reference_kernels()
      .reduce_of(K::kDataType)
      .widen(reinterpret_cast<const std::byte*>(&bits), 1, reinterpret_cast<std::byte*>(&value));
  if constexpr (std::is_same_v<Accumulator, float>) {
    const std::uint32_t kinds[] = {0U,       1U,       0xffffffffU, 0x8000U, 0x7fffU, 0x8001U,
                                   0x80000U, 0x7ffffU, 0x80001U,    0x1000U, 0x1001U};
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) +
                                kinds[random() % std::size(kinds)]);
  }
  return value;
}

template <class K>
std::vector<typename K::Accumulator> canonical_values(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<typename K::Accumulator> values(count);
  for (auto& value : values) value = K::E::canonical(random_accumulator<K>(random));
  return values;
}

std::vector<std::uint64_t> every_few(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> indices(count);
  std::uint64_t at = 0;
  for (std::uint64_t& index : indices) index = at += 1 + random() % 3;
  return indices;
}

template <class K>
void run(const EntryWork& work, bool scatters, std::uint64_t seed) {
  emulated::launch<emulated::NoShared>(static_cast<unsigned>(entry_tiles(work.capacity)), kThreads,
                                       seed, [&](emulated::NoShared&) {
                                         if (scatters)
                                           scatter_entries<K::kTopK>(work);
                                         else
                                           gather_entries<K::kTopK>(work);
                                       });
}

TYPED_TEST(EntryRoutine, ScattersWhatTheHostRounds) {
  using Stored = typename TypeParam::Stored;
  const kernels::ReduceKernels& reduce =
      kernels::reference_kernels().reduce_of(TypeParam::kDataType);
  for (const std::uint32_t divisor : {1U, 2U, 3U, 7U}) {
    for (const std::uint64_t count : {1UL, 1023UL, 1025UL, 20'000UL}) {
      SCOPED_TRACE(testing::Message() << count << " entries by " << divisor);
      std::vector<std::uint64_t> indices = every_few(count, count);
      auto values = canonical_values<TypeParam>(count, count + divisor);
      std::vector<Stored> array(indices.back() + 5, Stored{77}), wanted = array, elements(count);
      std::uint64_t own_count = count;
      run<TypeParam>({{indices.data(), values.data(), &own_count}, count, array.data(), divisor},
                     true, count);
      if (divisor > 1) reduce.divide(reinterpret_cast<std::byte*>(values.data()), count, divisor);
      reduce.narrow(reinterpret_cast<const std::byte*>(values.data()), count,
                    reinterpret_cast<std::byte*>(elements.data()));
      for (std::size_t i = 0; i < count; ++i) wanted[indices[i]] = elements[i];
      ASSERT_EQ(std::memcmp(array.data(), wanted.data(), array.size() * sizeof(Stored)), 0);
    }
  }
}

TYPED_TEST(EntryRoutine, GathersWhatTheHostWidens) {
  using Stored = typename TypeParam::Stored;
  using Accumulator = typename TypeParam::Accumulator;
  const kernels::AccumulateKernels& host =
      kernels::reference_kernels().accumulate_of(TypeParam::kDataType);
  std::mt19937_64 random(5);
  std::vector<Stored> array(65'536);
  for (std::size_t i = 0; i < array.size(); ++i)
    array[i] = sizeof(Stored) <= 2 ? static_cast<Stored>(i) : emulated::value_of<Stored>(random());
  std::vector<std::uint64_t> indices(array.size());
  for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = i;
  std::vector<Accumulator> values(array.size()), residual(array.size()), taken(array.size());
  std::vector<std::uint16_t> positions(array.size() + 64);
  std::uint64_t count = array.size();
  run<TypeParam>({{indices.data(), values.data(), &count}, count, array.data(), 1}, false, 1);
  // acc of a residual of zeros.
  (void)host.accumulate(reinterpret_cast<const std::byte*>(array.data()), array.size(),
                        reinterpret_cast<std::byte*>(residual.data()), 0, 1, positions.data(),
                        reinterpret_cast<std::byte*>(taken.data()));
  EXPECT_EQ(std::memcmp(values.data(), residual.data(), values.size() * sizeof(Accumulator)), 0);
}

TYPED_TEST(EntryRoutine, NoMoreThanThereAre) {
  using Stored = typename TypeParam::Stored;
  std::vector<std::uint64_t> indices(3000, 9);
  auto values = canonical_values<TypeParam>(3000, 1);
  const auto before = values;
  std::vector<Stored> array(10, Stored{77}), untouched = array;
  std::uint64_t count = 0;
  run<TypeParam>({{indices.data(), values.data(), &count}, 3000, array.data(), 1}, true, 1);
  EXPECT_EQ(std::memcmp(array.data(), untouched.data(), array.size() * sizeof(Stored)), 0);
  count = 100;
  run<TypeParam>({{indices.data(), values.data(), &count}, 3000, array.data(), 1}, false, 2);
  EXPECT_EQ(std::memcmp(values.data() + 100, before.data() + 100, 2900 * sizeof(values[0])), 0);
  EXPECT_EQ(emulated::bits_of(values[99]),
            emulated::bits_of(TypeParam::E::canonical(TypeParam::E::widen(Stored{77}))));
}

// T(a, b) = T(a, m) + T(m, b) by merges.
template <class K>
struct Tree {
  using Accumulator = typename K::Accumulator;
  struct List {
    std::vector<std::uint64_t> indices;
    std::vector<Accumulator> values;
    std::uint64_t count;
    DeviceEntries device() { return {indices.data(), values.data(), &count}; }
  };
  std::vector<List> ranks;

  List sum(std::size_t a, std::size_t b) {
    if (b - a == 1) return ranks[a];
    const std::size_t middle = a + std::bit_floor(b - a - 1);
    List left = sum(a, middle), right = sum(middle, b), out;
    const std::uint64_t room = left.indices.size() + right.indices.size(),
                        tiles = merge_tiles(room);
    out.indices.resize(room);
    out.values.resize(room);
    std::vector<MergeSplit> splits(tiles + 1);
    std::vector<TileState> states(tiles);
    std::uint32_t next_tile = 0;
    const MergeWork work{left.device(),        right.device(), out.device(),  left.indices.size(),
                         right.indices.size(), splits.data(),  states.data(), &next_tile};
    emulated::launch<emulated::NoShared>(1, kThreads, a,
                                         [&](emulated::NoShared&) { split_merge(work); });
    emulated::launch<MergeShared<Accumulator>>(
        static_cast<unsigned>(tiles), kThreads, b,
        [&](MergeShared<Accumulator>& shared) { merge_tile(shared, work); });
    return out;
  }
};

// Sparse sums by merges in the ranks' tree, scattered as means: the bits of the dense all-reduce of
// the host.
TYPED_TEST(EntryRoutine, MergesInTheRanksTreeAreTheDenseMean) {
  using Stored = typename TypeParam::Stored;
  constexpr std::size_t kCount = 3000;
  const kernels::KernelSet& host = kernels::reference_kernels();
  for (const std::size_t ranks : {1UL, 2UL, 3UL, 7UL}) {
    SCOPED_TRACE(testing::Message() << ranks << " ranks");
    std::mt19937_64 random(ranks);
    Tree<TypeParam> tree;
    std::vector<std::vector<Stored>> dense(ranks, std::vector<Stored>(kCount));
    std::vector<const std::byte*> by_rank;
    for (std::vector<Stored>& own : dense) {
      typename Tree<TypeParam>::List list{};
      for (std::uint64_t i = 0; i < kCount; ++i) {
        if (random() % 2 == 0) continue;
        own[i] = std::is_same_v<Stored, float> || std::is_same_v<Stored, double>
                     ? static_cast<Stored>(static_cast<double>(random() % 20'001) / 7 - 1400)
                     : static_cast<Stored>(random());
        list.indices.push_back(i);
        list.values.push_back(TypeParam::E::canonical(TypeParam::E::widen(own[i])));
      }
      list.count = list.indices.size();
      tree.ranks.push_back(list);
      by_rank.push_back(reinterpret_cast<const std::byte*>(own.data()));
    }
    auto sum = tree.sum(0, ranks);
    std::vector<Stored> result(kCount), wanted(kCount);
    run<TypeParam>(
        {sum.device(), sum.indices.size(), result.data(), static_cast<std::uint32_t>(ranks)}, true,
        3);
    sparse::RankTree reference(host.reduce_of(TypeParam::kDataType),
                               {kernels::ReduceOp::kSum, true}, static_cast<int>(ranks));
    reference.reduce(by_rank, sizeof(Stored), kCount, reinterpret_cast<std::byte*>(wanted.data()));
    EXPECT_EQ(std::memcmp(result.data(), wanted.data(), kCount * sizeof(Stored)), 0);
  }
}

}  // namespace
}  // namespace sparcl::test
