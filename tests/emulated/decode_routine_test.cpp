// The block routine that decodes, run on the host against the codec's decoder: what that refuses,
// and what comes of the rest.

#include "tests/emulated/block_checks.hpp"

namespace sparcl::test {
namespace {

constexpr const codec::BlockMode* kModes[] = {&codec::kDenseMode, &codec::kVerbatimMode,
                                              &codec::kFlatMode, &codec::kTwoLevelMode,
                                              &codec::kTwoLevelVerbatimMode};

template <class Types>
struct DecodeRoutine : testing::Test {};
TYPED_TEST_SUITE(DecodeRoutine, ElementTypes);

TYPED_TEST(DecodeRoutine, FindsWhatTheCodecFinds) {
  using enum Change;
  using Word = typename TypeParam::Word;
  const bool is_float = info(TypeParam::kDataType).is_float;
  std::uint64_t seed = 0;
  for (const codec::BlockMode* mode : kModes) {
    for (const std::size_t count : {1UL, 33UL, 257UL, 3'001UL}) {
      for (const Change kind : {kMostlyOne, kOneOnly, kSmall, kAny}) {
        const std::vector<Density> densities{{count < 100 ? 1000U : 500U, kind}};
        const TwoArrays<Word> arrays(count, densities, is_float, ++seed);
        EXPECT_EQ(
            check_decoded<TypeParam>(contents_of<TypeParam>(arrays, *mode), arrays.base, seed), 0U)
            << mode->name;
      }
    }
    if (mode->whole) continue;
    const std::vector<Density> densities{{10}, {0}, {1, kAny}, {60, kSmall}};
    TwoArrays<Word> arrays(3 * kBlockElements + 500, densities, is_float, ++seed);
    const Contents contents = contents_of<TypeParam>(arrays, *mode);
    EXPECT_EQ(check_decoded<TypeParam>(contents, arrays.base, seed), 0U);
    for (Word& element : arrays.base)
      element ^= static_cast<Word>(element >> 1);  // another state: its values change, or are set
    EXPECT_EQ(check_decoded<TypeParam>(contents, arrays.base, ++seed), 0U);
  }
}

TEST(DecodeRoutineLarge, FindsWhatTheCodecFinds) {
  using enum Change;
  using Bfloat16 = TypeOfElement<DataType::kBfloat16, std::uint16_t>;
  using Float64 = TypeOfElement<DataType::kFloat64, std::uint64_t>;
  const std::vector<Density> densities{{1000, kOneOnly}, {500, kSmall}, {200, kAny}};
  const TwoArrays<std::uint16_t> halves(3 * kBlockElements, densities, true, 1);
  for (const codec::BlockMode* mode : kModes)
    EXPECT_EQ(check_decoded<Bfloat16>(contents_of<Bfloat16>(halves, *mode), halves.base, 1), 0U);
  const std::vector<Density> wide{{1000, kAny}};
  const TwoArrays<std::uint64_t> doubles(kBlockElements, wide, true, 2);
  EXPECT_EQ(
      check_decoded<Float64>(contents_of<Float64>(doubles, codec::kFlatMode), doubles.base, 2), 0U);
}

// Contents of the same block, each damaged in another way, for as many blocks.
TYPED_TEST(DecodeRoutine, RefusesWhatTheCodecRefuses) {
  using enum Change;
  using Word = typename TypeParam::Word;
  constexpr std::size_t kBlocks = 25;
  const bool is_float = info(TypeParam::kDataType).is_float;
  std::mt19937_64 random(5);
  std::vector<Word> held(kBlocks * kBlockElements);
  for (Word& element : held) element = static_cast<Word>(random());
  std::size_t refused = 0, seed = 0;
  for (const Change kind : {kMostlyOne, kSmall, kAny}) {
    for (const std::uint32_t permille : {1U, 6U}) {
      const std::vector<Density> densities{{permille, kind}};
      const TwoArrays<Word> arrays(kBlockElements, densities, is_float, ++seed);
      for (const codec::BlockMode* mode : {&codec::kVerbatimMode, &codec::kFlatMode}) {
        const Contents good = contents_of<TypeParam>(arrays, *mode);
        Contents bad;
        for (std::size_t b = 0; b < kBlocks; ++b) {
          std::vector<std::byte> content(good.gathered.begin(),
                                         good.gathered.begin() + good.blocks[0].bytes);
          damage(content, random);
          bad.add(mode->id, content);
        }
        refused += check_decoded<TypeParam>(bad, held, seed);
      }
    }
  }
  EXPECT_GT(refused, 12 * kBlocks / 4) << "the damage does not bite";
  EXPECT_LT(refused, 12 * kBlocks) << "none was read";
}

TEST(DecodeRoutineByHand, RefusesWhatTheCodecRefuses) {
  using Int8 = TypeOfElement<DataType::kInt8, std::uint8_t>;
  const std::vector<Written> cases{
      {"nothing", {}, false},
      {"no changes", {0, 0, 0}, false},
      {"more changes than elements", {9, 0x40, 0xff, 0xff, 0xff, 0xff}, false},
      {"a long varint", {0x81, 0x00, 0, 0, 0x01}, false},
      {"one step of 1 at 0: sign, and M = 6: plane, trit, unary", {1, 0, 0, 0x08}, true},
      {"the same at 7: a remainder of 1, a quotient of 1", {1, 0, 0, 0x11}, true},
      {"at 8, behind the last element", {1, 0, 0, 0x22}, false},
      {"bit 7 of the parameters", {1, 0x80, 0, 0x08}, false},
      {"more exceptions than changes", {1, 0, 2, 0x08}, false},
      {"an exponent without use", {1, 1, 0, 0x08}, false},
      {"padding", {1, 0, 0, 0x48}, false},
      {"a byte too many", {1, 0, 0, 0x08, 0}, false},
      {"no end", {1, 0, 0, 0x00}, false},
      {"all, m = 0", {1, 0x40, 0x18}, true},
      {"all, with the exponent 63", {1, 0x7f, 0x18, 0, 0, 0, 0, 0, 0, 0, 0}, true},
      {"all, L + e = 64", {1, 0x7f, 0x28, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, false},
      {"all, d = -128: e = 7, m = 127", {1, 0x47, 0xfc, 0x0f}, true},
      {"all, d = +128", {1, 0x47, 0xf8, 0x0f}, false},
      {"all, d = -129", {1, 0x48, 0x1c, 0x10}, false},
  };
  check_written<Int8>(kernels::kFlatBlock, cases);
}

// Two changes of int8, one with L + e = 65, one too large: whichever thread is first, the code is
// that of the codec's text.
TEST(DecodeRoutineErrors, OfSeveralTheOneIsTold) {
  const std::vector<unsigned char> too_large_first{2,    0x48, 0x70, 0, 0, 0, 0, 0, 0, 0,
                                                   0xff, 0x01, 0,    0, 0, 0, 0, 0, 0, 0};
  const std::vector<unsigned char> too_long_first{2,    0x48, 0x30, 0, 0, 0, 0, 0, 0,    0x80,
                                                  0x01, 0,    0,    0, 0, 0, 0, 0, 0xfc, 0x03};
  const std::vector<std::uint8_t> held(8, 100);
  for (const std::vector<unsigned char>& content : {too_large_first, too_long_first}) {
    Contents contents;
    contents.add(kernels::kFlatBlock, std::as_bytes(std::span(content)));
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const auto found =
          emulated_decode<std::uint8_t>(contents.gathered, contents.blocks, held, 8, false, seed);
      EXPECT_EQ(found.errors[0], BlockError::kMagnitude) << "seed " << seed;
    }
  }
}

TEST(DecodeRoutinePlaces, OutsideTheBufferAreRefused) {
  const std::vector<std::uint8_t> held(7 * kBlockElements);
  const std::vector<std::byte> contents(64, std::byte{1});
  const std::vector<BlockContent> blocks{{64, 1, kernels::kFlatBlock},
                                         {48, 17, kernels::kFlatBlock},
                                         {8, 4, kernels::kFlatBlock},
                                         {~std::uint64_t{15}, 16, kernels::kDenseBlock},
                                         {0, 0xffffffffU, kernels::kDenseBlock},
                                         {0, 4, 1},
                                         {0, 4, kernels::kLostBlock}};
  const DecodedArray<std::uint8_t> found =
      emulated_decode<std::uint8_t>(contents, blocks, held, 100, false, 3);
  EXPECT_EQ(found.refused, blocks.size());
  for (const BlockError error : found.errors) EXPECT_EQ(error, BlockError::kNotHere);
}

TEST(DecodeRoutineRoom, BlocksWithMoreChangesThanThereIsRoomForAreRefused) {
  using Int16 = TypeOfElement<DataType::kInt16, std::uint16_t>;
  const std::vector<Density> densities{{5}};
  const TwoArrays<std::uint16_t> arrays(2 * kBlockElements, densities, false, 1);
  const Contents contents = contents_of<Int16>(arrays, codec::kFlatMode);
  const std::uint64_t all = ListedChanges<std::uint16_t>(arrays).positions.size();
  const DecodedArray<std::uint16_t> found = emulated_decode<std::uint16_t>(
      contents.gathered, contents.blocks, arrays.base, all - 1, false, 1);
  EXPECT_EQ(found.refused, 1U);
  EXPECT_EQ(found.errors[0], BlockError::kNone);
  EXPECT_EQ(found.errors[1], BlockError::kNoRoom);
  EXPECT_EQ(found.starts[2], all);
}

// What one routine writes the other reads: blocks in any order.
TYPED_TEST(DecodeRoutine, ReadsWhatIsEncodedHere) {
  using enum Change;
  using Word = typename TypeParam::Word;
  const bool is_float = info(TypeParam::kDataType).is_float;
  const std::vector<Density> densities{{20}, {0}, {1}, {2, kAny}, {3, kSmall}};
  for (std::uint64_t seed = 20; seed < 23; ++seed) {
    const TwoArrays<Word> arrays(8 * kBlockElements + 77, densities, is_float, seed);
    ListedChanges<Word> changes(arrays);
    EncodedArray encoded =
        emulated_encode(arrays, changes, changes.positions.size(), is_float, seed);
    const DecodedArray<Word> found = emulated_decode<Word>(
        {encoded.contents.data(), encoded.blocks.back().offset}, encoded.blocks, arrays.base,
        changes.positions.size(), is_float, seed);
    EXPECT_EQ(found.refused, 0U);
    DecodedArray<Word> same = found;
    EXPECT_TRUE(std::ranges::equal(found.starts, changes.starts));
    EXPECT_TRUE(
        std::equal(changes.positions.begin(), changes.positions.end(), same.positions.data()));
    EXPECT_TRUE(
        std::equal(changes.old_values.begin(), changes.old_values.end(), same.old_values.data()));
    EXPECT_TRUE(
        std::equal(changes.new_values.begin(), changes.new_values.end(), same.new_values.data()));
  }
}

}  // namespace
}  // namespace sparcl::test
