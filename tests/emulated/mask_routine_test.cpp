// The block routines of masks, run on the host against the masks of the host's calls.

#include <gtest/gtest.h>

#include "src/sparse/mask/mask.hpp"
#include "tests/emulated/emulated_cuda.hpp"
// After the emulation.
#include "kernels/cuda/mask_block.cuh"
#include "tests/emulated/element_types.hpp"

namespace sparcl::test {
namespace {

using namespace kernels::cuda;  // NOLINT: the routines under test
using sparse::Mask;

template <class Word>
struct MaskRoutine : testing::Test {};
using Words = testing::Types<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(MaskRoutine, Words);

// offset: of the array from an aligned address. The packed values are aligned.
template <class Word>
void check(const Mask& mask, std::uint64_t seed, std::size_t offset = 0) {
  SCOPED_TRACE(testing::Message() << mask.size() << " of " << mask.count() << ", seed " << seed
                                  << ", offset " << offset);
  std::mt19937_64 random(seed);
  std::vector<Word> memory(mask.count() + offset);
  const std::span<Word> array(memory.data() + offset, mask.count());
  for (Word& element : array) element = static_cast<Word>(random());
  const Mask::Places places = mask.places();
  ASSERT_FALSE(places.is_full) << "such masks need no kernel";
  std::vector<kernels::MaskPart> parts(places.parts.begin(), places.parts.end());
  parts.push_back({0, mask.size()});
  MaskWork work{{.count = mask.size(),
                 .parts = parts.data(),
                 .part_count = places.parts.size(),
                 .positions = places.positions.data(),
                 .runs = places.runs.data(),
                 .run_elements = places.run_elements},
                array.data(),
                nullptr};
  const auto blocks = static_cast<unsigned>(mask_blocks(work.places));

  std::vector<Word> packed(mask.size() + 1, 77), expected(mask.size() + 1, 77);
  work.packed = packed.data();
  emulated::launch<emulated::NoShared>(blocks, kThreads, seed,
                                       [&](emulated::NoShared&) { gather_mask_block<Word>(work); });
  const DataType type = type_of<Word>();
  mask.pack(reinterpret_cast<const std::byte*>(array.data()), 0, mask.size(), type,
            kernels::reference_kernels(), reinterpret_cast<std::byte*>(expected.data()));
  ASSERT_TRUE(packed == expected);

  std::vector<Word> wanted(array.begin(), array.end());
  for (Word& value : packed) value = static_cast<Word>(random());
  mask.unpack(reinterpret_cast<const std::byte*>(packed.data()), 0, mask.size(), type,
              kernels::reference_kernels(), reinterpret_cast<std::byte*>(wanted.data()));
  emulated::launch<emulated::NoShared>(
      blocks, kThreads, seed, [&](emulated::NoShared&) { scatter_mask_block<Word>(work); });
  ASSERT_TRUE(std::ranges::equal(array, wanted));
}

TYPED_TEST(MaskRoutine, TakesRandomElements) {
  for (const std::uint64_t count : {2UL, 65'535UL, 65'537UL, 200'003UL}) {
    for (const double density : {0.0, 0.001, 0.5})
      check<TypeParam>(*Mask::random(count, density, count), count);
  }
}

// One element; one a block of the array; a whole block; blocks that have none between those that
// have.
TYPED_TEST(MaskRoutine, TakesElementsAsTheyAreGiven) {
  constexpr std::uint64_t kCount = 400'000, kBlock = 65'536;
  check<TypeParam>(*Mask::of_indices(std::vector<std::uint64_t>{kCount - 1}, kCount), 1);
  check<TypeParam>(
      *Mask::of_indices(std::vector<std::uint64_t>{0, kBlock - 1, 3 * kBlock, 5 * kBlock + 7},
                        kCount),
      2);
  std::vector<std::uint64_t> block(kBlock);
  for (std::uint64_t i = 0; i < kBlock; ++i) block[i] = 2 * kBlock + i;
  check<TypeParam>(*Mask::of_indices(block, kCount), 3);
}

// Runs shorter and longer than what a block of threads takes, of whole vectors and not, and a last
// one that is cut; some arrays are not aligned.
TYPED_TEST(MaskRoutine, TakesBlocks) {
  std::uint64_t seed = 10;
  for (const std::uint64_t length : {1UL, 3UL, 64UL, 16'384UL, 50'000UL}) {
    for (const double density : {0.2, 0.8}) {
      ++seed;
      check<TypeParam>(*Mask::random_blocks(150'001, length, density, seed), seed, seed % 4 / 3);
    }
  }
}

}  // namespace
}  // namespace sparcl::test
