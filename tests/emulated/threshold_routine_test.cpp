// The block routines that take what is large enough, run on the host against the host's passes and
// rules.

#include <gtest/gtest.h>

#include "kernels/kernel_set.hpp"
#include "src/codec/change_rule.hpp"
#include "tests/emulated/emulated_cuda.hpp"
// After the emulation.
#include "kernels/cuda/change_size.cuh"
#include "kernels/cuda/diff_tile.cuh"
#include "kernels/cuda/large_tile.cuh"
#include "tests/emulated/element_types.hpp"

namespace sparcl::test {
namespace {

using namespace kernels::cuda;  // NOLINT: the routines under test

struct LargeCase {
  std::size_t count;
  unsigned share = 10;  // one of so many is as large as the threshold, about
  bool has_feedback = true;
  std::uint64_t capacity = UINT64_MAX;
  bool clear_sent = false;
  std::size_t offset = 0;  // from an aligned address
};

template <class K>
void check_large(const LargeCase& c, std::uint64_t seed) {
  using Accumulator = typename K::Accumulator;
  SCOPED_TRACE(testing::Message() << c.count << " elements, one of " << c.share << ", feedback "
                                  << c.has_feedback << ", capacity " << c.capacity << ", seed "
                                  << seed);
  const auto memory = random_values<typename K::Stored>(c.count + c.offset, seed, 2);
  auto own_residual = random_values<Accumulator>(c.count + c.offset, seed + 1, 2),
       expected_residual = own_residual;
  const auto* const values = memory.data() + c.offset;
  Accumulator* const residual = own_residual.data() + c.offset;
  Accumulator* const expected = expected_residual.data() + c.offset;
  std::vector<Accumulator> all(c.count);
  for (std::size_t i = 0; i < c.count; ++i)
    all[i] = K::E::sum(values, c.has_feedback ? residual : nullptr, i);
  std::ranges::sort(all, std::greater(), &K::E::key);
  const std::uint64_t least =
      std::max<std::uint64_t>(1, c.share == 0 ? 0 : K::E::key(all[(c.count - 1) / c.share]));

  const kernels::AccumulateKernels& host = kernels::reference_kernels().accumulate_of(K::kDataType);
  std::vector<std::uint64_t> wanted;
  std::vector<Accumulator> wanted_values(c.count);
  std::vector<std::uint16_t> positions(kBlockElements + kernels::kPositionSlack);
  for (std::size_t at = 0; at < c.count; at += kBlockElements) {
    const std::size_t own = std::min<std::size_t>(kBlockElements, c.count - at);
    const auto* const from = reinterpret_cast<const std::byte*>(values + at);
    auto* const taken = reinterpret_cast<std::byte*>(wanted_values.data() + wanted.size());
    const std::size_t found =
        c.has_feedback ? host.accumulate(from, own, reinterpret_cast<std::byte*>(expected + at), 0,
                                         least, positions.data(), taken)
                       : host.take_large(from, own, 0, least, positions.data(), taken);
    for (std::size_t i = 0; i < found; ++i) wanted.push_back(at + positions[i]);
  }
  const std::size_t room = std::min<std::uint64_t>(c.capacity, wanted.size());
  for (std::size_t i = 0; i < room && c.clear_sent; ++i) expected[wanted[i]] = 0;

  const std::uint64_t tiles = tile_count(c.count);
  std::vector<TileState> states(tiles);
  std::vector<std::uint64_t> indices(room);
  std::vector<Accumulator> taken(room);
  std::uint32_t next_tile = 0;
  std::uint64_t found = 77;
  const LargeWork work{values,         c.has_feedback ? residual : nullptr,
                       c.count,        least,
                       c.clear_sent,   room,
                       indices.data(), taken.data(),
                       &found,         states.data(),
                       &next_tile};
  emulated::launch<CompactionShared>(
      static_cast<unsigned>(tiles), kThreads, seed,
      [&](CompactionShared& shared) { take_large_tile<K::kTopK>(shared, work); });
  ASSERT_EQ(found, wanted.size());
  EXPECT_TRUE(std::equal(indices.begin(), indices.end(), wanted.begin()));
  EXPECT_TRUE(room == 0 ||
              std::memcmp(taken.data(), wanted_values.data(), room * sizeof(Accumulator)) == 0);
  EXPECT_EQ(std::memcmp(own_residual.data(), expected_residual.data(),
                        own_residual.size() * sizeof(Accumulator)),
            0);
}

template <class K>
struct ThresholdRoutine : testing::Test {};
TYPED_TEST_SUITE(ThresholdRoutine, AllTypes);

TYPED_TEST(ThresholdRoutine, TakesWhatTheHostsPassTakes) {
  std::uint64_t seed = 10;
  for (const LargeCase& c :
       {LargeCase{1}, LargeCase{100, 3}, LargeCase{16'384, 100}, LargeCase{16'385, 1},
        LargeCase{16'385, 0}, LargeCase{70'000}, LargeCase{70'000, 10, false}})
    check_large<TypeParam>(c, seed += 10);
}

TYPED_TEST(ThresholdRoutine, WritesNoMoreThanThereIsRoomFor) {
  check_large<TypeParam>({40'000, 4, true, 3000, true}, 3);
  check_large<TypeParam>({40'000, 4, false, 0}, 4);
}

TYPED_TEST(ThresholdRoutine, TakesArraysOfAnyAlignment) {
  check_large<TypeParam>({20'000, 10, true, UINT64_MAX, false, 1}, 6);
  check_large<TypeParam>({20'000, 10, false, UINT64_MAX, false, 3}, 7);
}

TYPED_TEST(ThresholdRoutine, WhatIsSentLeavesTheResidual) {
  check_large<TypeParam>({20'000, 20, true, UINT64_MAX, true}, 5);
}

template <class ElementType, DataType kType>
struct Changing {
  using Element = ElementType;
  using Word = typename Element::Word;
  static constexpr DataType kDataType = kType;
};

// Elements of any bits, half of them near the old ones.
template <class Word>
void random_pair(std::mt19937_64& random, Word& old_value, Word& new_value) {
  old_value = new_value = static_cast<Word>(random());
  if (random() % 4 == 0) return;
  new_value = random() % 2 == 0 ? static_cast<Word>(random())
                                : static_cast<Word>(old_value + (random() % 9) - 4);
  if (random() % 16 == 0) old_value = 0;
  if (random() % 16 == 0)
    new_value = static_cast<Word>(Word{1} << (8 * sizeof(Word) - 1));  // of floats -0
}

template <class T>
void check_diff(std::size_t count, double threshold, std::size_t offset) {
  using Word = typename T::Word;
  SCOPED_TRACE(testing::Message() << count << " elements, threshold " << threshold << ", offset "
                                  << offset);
  std::mt19937_64 random(count);
  struct alignas(16) Aligned {
    std::byte bytes[16];
  };
  std::vector<Aligned> old_memory((count + offset) * sizeof(Word) / 16 + 2),
      new_memory(old_memory.size());
  Word* const base = reinterpret_cast<Word*>(old_memory.data()) + offset;
  Word* const target = reinterpret_cast<Word*>(new_memory.data()) + offset;
  std::vector<std::uint16_t> positions;
  std::vector<Word> old_values, new_values;
  for (std::size_t i = 0; i < count; ++i) {
    random_pair(random, base[i], target[i]);
    if (base[i] == target[i]) continue;
    positions.push_back(static_cast<std::uint16_t>(i));
    old_values.push_back(base[i]);
    new_values.push_back(target[i]);
  }
  const codec::Piece piece{0, 0, static_cast<std::uint32_t>(count), 0};
  const std::size_t kept =
      codec::ThresholdRule(threshold).keep({0,
                                            T::kDataType,
                                            {&piece, 1},
                                            positions.data(),
                                            reinterpret_cast<std::byte*>(old_values.data()),
                                            reinterpret_cast<std::byte*>(new_values.data()),
                                            positions.size()});
  std::vector<std::uint16_t> seen(count);
  std::vector<Word> seen_old(count), seen_new(count);
  std::uint64_t starts[2] = {};
  std::vector<TileState> states(tile_count(count));
  std::uint32_t next_tile = 0;
  const DiffWork work{base,
                      target,
                      count,
                      count,
                      {seen.data(), seen_old.data(), seen_new.data(), starts},
                      states.data(),
                      &next_tile};
  emulated::launch<DiffShared>(
      static_cast<unsigned>(states.size()), kThreads, count, [&](DiffShared& shared) {
        diff_tile<Word>(shared, work, IsLargerThan<typename T::Element>{threshold});
      });
  ASSERT_EQ(starts[1], kept);
  EXPECT_TRUE(std::equal(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(kept),
                         positions.begin()));
  EXPECT_TRUE(std::equal(seen_old.begin(), seen_old.begin() + static_cast<std::ptrdiff_t>(kept),
                         old_values.begin()));
  EXPECT_TRUE(std::equal(seen_new.begin(), seen_new.begin() + static_cast<std::ptrdiff_t>(kept),
                         new_values.begin()));
}

template <class T>
struct LargeDiffRoutine : testing::Test {};
using ChangingKinds =
    testing::Types<Changing<NativeElement<std::int8_t>, DataType::kInt8>,
                   Changing<NativeElement<std::uint8_t>, DataType::kUint8>,
                   Changing<NativeElement<std::int16_t>, DataType::kInt16>,
                   Changing<NativeElement<std::uint16_t>, DataType::kUint16>,
                   Changing<NativeElement<std::int32_t>, DataType::kInt32>,
                   Changing<NativeElement<std::uint32_t>, DataType::kUint32>,
                   Changing<NativeElement<std::int64_t>, DataType::kInt64>,
                   Changing<NativeElement<std::uint64_t>, DataType::kUint64>,
                   Changing<SmallElement<Float16, std::uint16_t>, DataType::kFloat16>,
                   Changing<SmallElement<Bfloat16, std::uint16_t>, DataType::kBfloat16>,
                   Changing<SmallElement<Float8e4m3, std::uint8_t>, DataType::kFloat8e4m3>,
                   Changing<SmallElement<Float8e5m2, std::uint8_t>, DataType::kFloat8e5m2>,
                   Changing<NativeElement<float>, DataType::kFloat32>,
                   Changing<NativeElement<double>, DataType::kFloat64>>;
TYPED_TEST_SUITE(LargeDiffRoutine, ChangingKinds);

TYPED_TEST(LargeDiffRoutine, KeepsWhatTheHostsRuleKeeps) {
  for (const double threshold : {0.0, 0.01, 3.0, 1e6, std::numeric_limits<double>::infinity()}) {
    check_diff<TypeParam>(17'000, threshold, 0);
    check_diff<TypeParam>(500, threshold, 1);
  }
}

}  // namespace
}  // namespace sparcl::test
