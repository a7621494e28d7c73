// The block routines of diff, run on the host against a loop.

#include <gtest/gtest.h>

#include "tests/emulated/emulated_cuda.hpp"
// After the emulation.
#include "kernels/cuda/diff_tile.cuh"

namespace sparcl::test {
namespace {

using namespace kernels::cuda;  // NOLINT: the routines under test

template <class Word>
struct DiffRoutine : testing::Test {};
using Words = testing::Types<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(DiffRoutine, Words);

template <class Word>
void check(std::size_t count, unsigned permille, std::size_t offset, std::uint64_t seed,
           std::uint64_t capacity) {
  SCOPED_TRACE(testing::Message() << count << " elements, " << permille
                                  << " of 1,000 changed, offset " << offset << ", seed " << seed);
  std::mt19937_64 random(seed);
  struct alignas(16) Aligned {
    std::byte bytes[16];
  };
  std::vector<Aligned> old_memory((count + offset) * sizeof(Word) / 16 + 2),
      new_memory(old_memory.size());
  Word* const base = reinterpret_cast<Word*>(old_memory.data()) + offset;
  Word* const target = reinterpret_cast<Word*>(new_memory.data()) + offset;
  std::vector<std::uint64_t> wanted;
  for (std::size_t i = 0; i < count; ++i) {
    base[i] = target[i] = static_cast<Word>(random());
    if (random() % 1000 >= permille) continue;
    target[i] = static_cast<Word>(base[i] ^ (Word{1} << (random() % (8 * sizeof(Word)))));
    wanted.push_back(i);
  }
  const std::size_t room = std::min<std::size_t>(capacity, wanted.size());
  std::vector<std::uint16_t> positions(room);
  std::vector<Word> old_values(room), new_values(room);
  std::vector<std::uint64_t> starts(block_count(count) + 1, 77);
  const auto tiles = static_cast<unsigned>((count + kTileElements - 1) / kTileElements);
  std::vector<TileState> states(tiles);
  std::uint32_t next_tile = 0;
  const DiffWork work{base,
                      target,
                      count,
                      room,
                      {positions.data(), old_values.data(), new_values.data(), starts.data()},
                      states.data(),
                      &next_tile};
  emulated::launch<DiffShared>(tiles, kThreads, seed,
                               [&](DiffShared& shared) { diff_tile<Word>(shared, work); });

  ASSERT_EQ(starts.back(), wanted.size());
  for (std::size_t i = 0; i < room; ++i) {
    const std::size_t block =
        static_cast<std::size_t>(std::upper_bound(starts.begin(), starts.end() - 1, i) -
                                 starts.begin()) -
        1;
    ASSERT_EQ(block * kBlockElements + positions[i], wanted[i]) << "change " << i;
    ASSERT_EQ(old_values[i], base[wanted[i]]);
    ASSERT_EQ(new_values[i], target[wanted[i]]);
  }
}

TYPED_TEST(DiffRoutine, FindsWhatALoopFinds) {
  std::uint64_t seed = 1;
  for (const std::size_t count : {1UL, 31UL, 16'383UL, 16'384UL, 16'385UL, 150'001UL}) {
    for (const unsigned permille : {0U, 10U, 500U, 1000U})
      check<TypeParam>(count, permille, 0, ++seed, SIZE_MAX);
  }
}

// As many changes in a tile as are listed at a time, and times that, and one more.
TYPED_TEST(DiffRoutine, WritesChangesListByList) {
  for (const std::size_t count : {kListed - 1, kListed, kListed + 1, 3 * kListed, 3 * kListed + 1})
    check<TypeParam>(count, 1000, 0, count, SIZE_MAX);
}

TYPED_TEST(DiffRoutine, TakesArraysOfAnyAlignment) { check<TypeParam>(40'000, 30, 1, 3, SIZE_MAX); }

TYPED_TEST(DiffRoutine, WritesNoMoreThanThereIsRoomFor) {
  check<TypeParam>(40'000, 300, 0, 4, 5'000);
}

// Many tiles at work at once: who looks back sees sums of single tiles, too.
TYPED_TEST(DiffRoutine, AnyOrderOfTilesGivesTheSame) {
  for (std::uint64_t seed = 100; seed < 110; ++seed)
    check<TypeParam>(20 * 16'384 + 5, 20, 0, seed, SIZE_MAX);
}

}  // namespace
}  // namespace sparcl::test
