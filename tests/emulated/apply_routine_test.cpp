// The block routines that check and apply changes, run on the host against the reference kernels.

#include <gtest/gtest.h>

#include "kernels/kernel_set.hpp"
#include "tests/emulated/emulated_cuda.hpp"
// After the emulation.
#include "kernels/cuda/change_list.cuh"

namespace sparcl::test {
namespace {

using namespace kernels::cuda;  // NOLINT: the routines under test

template <class Word>
struct Changes {
  std::vector<std::uint16_t> positions;
  std::vector<Word> old_values, new_values;
  std::vector<std::uint64_t> starts;

  DeviceChanges device() {
    return {positions.data(), old_values.data(), new_values.data(), starts.data()};
  }
};

template <class Word>
Changes<Word> random_changes(const std::vector<Word>& array, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Changes<Word> changes;
  for (std::size_t i = 0; i < array.size(); ++i) {
    if (i % kBlockElements == 0) changes.starts.push_back(changes.positions.size());
    if (random() % 20 != 0) continue;
    changes.positions.push_back(static_cast<std::uint16_t>(i % kBlockElements));
    changes.old_values.push_back(array[i]);
    changes.new_values.push_back(static_cast<Word>(random()));
  }
  changes.starts.push_back(changes.positions.size());
  return changes;
}

template <class Word>
void apply(const ApplyWork& work, std::uint64_t seed) {
  const auto blocks = static_cast<unsigned>(block_count(work.count));
  emulated::launch<ApplyShared>(blocks, kThreads, seed,
                                [&](ApplyShared&) { check_old_values<Word>(work); });
  emulated::launch<ApplyShared>(blocks, kThreads, seed,
                                [&](ApplyShared& shared) { apply_changes<Word>(shared, work); });
}

template <class Word>
struct ApplyRoutine : testing::Test {};
using Words = testing::Types<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(ApplyRoutine, Words);

TYPED_TEST(ApplyRoutine, WritesAndHashesAsTheReference) {
  using Word = TypeParam;
  std::mt19937_64 random(1);
  std::vector<Word> array(150'000);
  for (Word& element : array) element = static_cast<Word>(random());
  Changes<Word> changes = random_changes(array, 2);
  std::vector<Word> expected = array;
  const kernels::ElementKernels& reference =
      kernels::reference_kernels()
          .elements[static_cast<std::size_t>(std::countr_zero(sizeof(Word)))];
  std::vector<DeviceChangeHashes> hashes(block_count(array.size()));
  std::vector<kernels::ChangeHashes> wanted;
  for (std::size_t b = 0; b + 1 < changes.starts.size(); ++b) {
    const std::size_t first = changes.starts[b], count = changes.starts[b + 1] - first;
    wanted.push_back(reference.hash_changes(
        changes.positions.data() + first, count,
        reinterpret_cast<const std::byte*>(changes.old_values.data() + first),
        reinterpret_cast<const std::byte*>(changes.new_values.data() + first)));
    for (std::size_t i = first; i < first + count; ++i)
      expected[b * kBlockElements + changes.positions[i]] = changes.new_values[i];
  }
  std::uint64_t refused = 0;
  apply<Word>({changes.device(), array.size(), array.data(), hashes.data(), &refused}, 7);
  EXPECT_EQ(refused, 0U);
  EXPECT_EQ(array, expected);
  for (std::size_t b = 0; b < wanted.size(); ++b) {
    EXPECT_EQ(hashes[b].old_low, wanted[b].old_values.low);
    EXPECT_EQ(hashes[b].old_high, wanted[b].old_values.high);
    EXPECT_EQ(hashes[b].new_low, wanted[b].new_values.low);
    EXPECT_EQ(hashes[b].new_high, wanted[b].new_values.high);
  }
}

TYPED_TEST(ApplyRoutine, OneWrongOldValueAndNothingIsWritten) {
  using Word = TypeParam;
  std::vector<Word> array(100'000, Word{3});
  Changes<Word> changes = random_changes(array, 4);
  array[kBlockElements + changes.positions.back()] =
      9;  // of the last block: the first has been looked at by then
  const std::vector<Word> before = array;
  std::uint64_t refused = 0;
  apply<Word>({changes.device(), array.size(), array.data(), nullptr, &refused}, 8);
  EXPECT_EQ(refused, 1U);
  EXPECT_EQ(array, before);
}

}  // namespace
}  // namespace sparcl::test
