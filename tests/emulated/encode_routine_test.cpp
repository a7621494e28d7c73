// The block routine that encodes, run on the host against the codec's encoder, bit for bit.

#include "tests/emulated/block_checks.hpp"

namespace sparcl::test {
namespace {

template <class Types>
struct EncodeRoutine : testing::Test {};
TYPED_TEST_SUITE(EncodeRoutine, ElementTypes);

template <class Types>
unsigned check(std::size_t count, std::vector<Density> densities, std::uint64_t seed) {
  SCOPED_TRACE(testing::Message() << count << " elements, seed " << seed);
  return check_encoded<Types>({count, densities, info(Types::kDataType).is_float, seed}, seed);
}

TYPED_TEST(EncodeRoutine, GivesTheCodecsBytes) {
  using enum Change;
  unsigned modes = check<TypeParam>(1, {{1000}}, 1);
  modes |= check<TypeParam>(1, {{1000, kOneOnly}}, 2);
  modes |= check<TypeParam>(33, {{500}}, 3);
  modes |= check<TypeParam>(2'000, {{1000, kAny}}, 4);
  modes |= check<TypeParam>(3'001, {{1000, kOneOnly}}, 5);
  modes |= check<TypeParam>(4'000, {{300, kSmall}}, 6);
  modes |= check<TypeParam>(5'000, {{120, kAny}}, 7);
  modes |=
      check<TypeParam>(3 * kBlockElements + 2'000, {{10}, {0}, {3, kSmall}, {500, kMostlyOne}}, 8);
  modes |= check<TypeParam>(2 * kBlockElements, {{0}, {1, kAny}}, 9);
  EXPECT_EQ(modes & 8U, 8U);
  EXPECT_EQ(modes & 1U, 1U);
  EXPECT_EQ(modes & 4U, 4U) << "no block was verbatim";
}

// A whole block, more than the window holds, in each form.
TEST(EncodeRoutineLarge, GivesTheCodecsBytes) {
  using enum Change;
  using Bfloat16 = TypeOfElement<DataType::kBfloat16, std::uint16_t>;
  using Float64 = TypeOfElement<DataType::kFloat64, std::uint64_t>;
  EXPECT_EQ(check<Bfloat16>(2 * kBlockElements, {{90}, {500, kSmall}}, 1), 8U);
  EXPECT_EQ(check<Float64>(20'000, {{300, kAny}}, 2), 4U);
  EXPECT_EQ(check<Float64>(20'000, {{900, kAny}}, 2),
            0x80U);  // pieces, of which two levels are fewer bits
  EXPECT_EQ(check<Float64>(kBlockElements, {{300, kMostlyOne}}, 3), 8U);
}

// Numbers of exceptions that are powers of two, up to a whole block: they are counted in the upper
// bits of another sum.
TEST(EncodeRoutineExceptions, AreCounted) {
  using Float64 = TypeOfElement<DataType::kFloat64, std::uint64_t>;
  for (const std::size_t count : {4'096UL, 16'384UL, 32'768UL, 65'536UL})
    check<Float64>(count, {{1000, Change::kAny}}, count);
}

// Small blocks, in which modes and forms of steps often take the same.
TEST(EncodeRoutineTies, AreDecidedAlike) {
  using Int16 = TypeOfElement<DataType::kInt16, std::uint16_t>;
  using enum Change;
  std::mt19937_64 random(3);
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const Change kind = std::array{kMostlyOne, kSmall, kAny}[random() % 3];
    check<Int16>(1 + random() % 60, {{static_cast<std::uint32_t>(200 + random() % 800), kind}},
                 seed);
  }
}

TEST(EncodeRoutineCounts, NextToGroupsOfThreads) {
  using Int32 = TypeOfElement<DataType::kInt32, std::uint32_t>;
  for (const std::size_t count : {31UL, 32UL, 63UL, 65UL, 255UL, 256UL, 257UL})
    check<Int32>(count, {{1000}}, count);
}

TEST(EncodeRoutineRoom, BlocksWhoseChangesHaveNoRoomAreLost) {
  const std::vector<Density> densities{{5}};
  const TwoArrays<std::uint16_t> arrays(3 * kBlockElements, densities, true, 1);
  ListedChanges<std::uint16_t> changes(arrays);
  EncodedArray encoded = emulated_encode(arrays, changes, changes.starts[2] - 1, true, 1);
  EXPECT_EQ(encoded.blocks[0].mode, kernels::kFlatBlock);
  for (const std::size_t block : {1UL, 2UL}) {
    EXPECT_EQ(encoded.blocks[block].mode, kernels::kLostBlock);
    EXPECT_EQ(encoded.blocks[block].bytes, 0U);
  }
}

// All planes, and unary parts, have no more bits than there is room for in the window at once.
TEST(EncodeRoutineWindow, HoldsEachPartOfAList) {
  for (const std::uint64_t span : {1UL, 2UL, 100UL, 4'097UL, 65'535UL, 65'536UL}) {
    for (std::uint64_t count = 1; count <= span; ++count) {
      const kernels::GapDivisor by = kernels::gap_divisor(span, count);
      ASSERT_LE(count + (span - count) / by.value(), kMaxPartBits);
      ASSERT_LE(count * by.shift, kMaxPartBits);
    }
  }
}

// Whatever the positions, there is room for what a block takes: at most its verbatim content, the
// check behind it, and its padding.
TEST(EncodeRoutineBytes, AreNoMoreThanTheMost) {
  constexpr std::uint64_t kAround =
      3 + kOldCheckBytes + kernels::kContentAlignment - 1;  // a varint is before the values
  for (const std::uint64_t span : {1UL, 2UL, 100UL, 4'097UL, 65'535UL, 65'536UL}) {
    for (std::uint64_t count = 1; count <= span; ++count) {
      const kernels::GapDivisor by = kernels::gap_divisor(span, count);
      const std::uint64_t bits =
          count * (by.shift + (by.thirds ? 2 : 0)) + count + (span - count) / by.value();
      for (const std::size_t width : {1UL, 2UL, 4UL, 8UL})
        ASSERT_LE(count * width + (bits + 7) / 8 + kAround,
                  kernels::max_coded_bytes(count, 1, width))
            << count << " of " << span;
    }
  }
}

}  // namespace
}  // namespace sparcl::test
