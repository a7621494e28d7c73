// Positions on two levels, for changes in clusters: written and read by the routines, run on the
// host, against the codec.

#include "tests/emulated/block_checks.hpp"
#include "tests/emulated/clusters.hpp"

namespace sparcl::test {
namespace {

constexpr unsigned kTwoLevels = 1U << kernels::kTwoLevelBlock,
                   kTwoLevelsOfValues = 1U << kernels::kTwoLevelVerbatimBlock;

struct Pattern {
  const char* name;
  std::size_t count;
  IsChosen changes;
};

const std::vector<Pattern>& patterns() {
  static const std::vector<Pattern> all{
      {"rows", kBlockElements, rows(64, 50)},
      {"rows, in part", kBlockElements, rows(256, 20, 600)},
      {"rows, seldom", kBlockElements, rows(1'000, 30, 80)},
      {"most rows", kBlockElements, rows(512, 2)},
      {"many small", kBlockElements, rows(3, 40)},
      {"pairs", kBlockElements, rows(2, 200)},
      {"one cluster", kBlockElements, between(30'000, 31'000)},
      {"one cluster in part", kBlockElements,
       [](std::size_t i) { return between(30'000, 34'000)(i) && rows(1, 3)(i); }},
      {"a run with a step", kBlockElements,
       [](std::size_t i) { return between(9'000, 15'000)(i) && i % 3 == 0; }},
      {"both ends", kBlockElements,
       [](std::size_t i) { return i < 200 || i >= kBlockElements - 200; }},
      {"both ends, spread", kBlockElements,
       [](std::size_t i) { return (i < 8'000 || i >= kBlockElements - 8'000) && rows(1, 25)(i); }},
      {"far apart", kBlockElements, [](std::size_t i) { return i % 20'000 < 40 && i < 60'000; }},
      {"the front", kBlockElements, between(0, 5'000)},
      {"the end", kBlockElements, between(kBlockElements - 700, kBlockElements)},
      {"all", kBlockElements, between(0, kBlockElements)},
      {"all but one", kBlockElements, [](std::size_t i) { return i != 40'000; }},
      {"all but a few", kBlockElements, [](std::size_t i) { return i % 5'000 != 77; }},
      {"every second", kBlockElements, [](std::size_t i) { return i % 2 == 1; }},
      {"one", kBlockElements, between(65'535, 65'536)},
      {"two", kBlockElements, [](std::size_t i) { return i == 0 || i == 65'535; }},
      {"a short block", 1'999, rows(50, 6)},
      {"a short block at its end", 3'000, between(2'700, 3'000)},
      {"all of a short block", 777, between(0, 777)},
      {"all of one", 1, between(0, 1)},
      {"several blocks", 3 * kBlockElements + 1'234, rows(300, 60)},
      {"several blocks, one without", 3 * kBlockElements,
       [](std::size_t i) { return i / kBlockElements != 1 && rows(128, 90)(i); }},
  };
  return all;
}

template <class Types>
struct TwoLevelRoutine : testing::Test {
  using Element = typename Types::Word;
  const bool is_float = info(Types::kDataType).is_float;
};
TYPED_TEST_SUITE(TwoLevelRoutine, ElementTypes);

TYPED_TEST(TwoLevelRoutine, GivesTheCodecsBytes) {
  using enum Change;
  unsigned modes = 0;
  std::uint64_t seed = 0;
  for (const Pattern& pattern : patterns()) {
    for (const Change kind : {kMostlyOne, kAny}) {
      SCOPED_TRACE(testing::Message() << pattern.name << ", kind " << static_cast<int>(kind));
      ++seed;
      modes |= check_encoded<TypeParam>(
          {pattern.count, kind, this->is_float, seed, pattern.changes}, seed);
    }
  }
  EXPECT_EQ(modes & (kTwoLevels | kTwoLevelsOfValues), kTwoLevels | kTwoLevelsOfValues);
}

TYPED_TEST(TwoLevelRoutine, FindsWhatTheCodecFinds) {
  std::uint64_t seed = 100;
  for (const Pattern& pattern : patterns()) {
    SCOPED_TRACE(pattern.name);
    const Change kind = ++seed % 2 == 0 ? Change::kMostlyOne : Change::kSmall;
    const TwoArrays<typename TestFixture::Element> arrays(pattern.count, kind, this->is_float, seed,
                                                          pattern.changes);
    const codec::BlockMode& mode =
        seed % 3 == 0 ? codec::kTwoLevelVerbatimMode : codec::kTwoLevelMode;
    EXPECT_EQ(check_decoded<TypeParam>(contents_of<TypeParam>(arrays, mode), arrays.base, seed),
              0U);
  }
}

// Gaps that are long from one element on, and from 2^15 on: the codec takes both.
TEST(TwoLevelShifts, AreAllThatThereAre) {
  using Uint8 = TypeOfElement<DataType::kUint8, std::uint8_t>;
  unsigned shifts = 0;
  std::uint64_t seed = 0;
  const auto look = [&](const IsChosen& changes) {
    const TwoArrays<std::uint8_t> arrays(kBlockElements, Change::kMostlyOne, false, ++seed,
                                         changes);
    EXPECT_NE(check_encoded<Uint8>(arrays, seed), 0U);
    const Contents contents = contents_of<Uint8>(arrays, codec::kTwoLevelMode);
    EXPECT_EQ(check_decoded<Uint8>(contents, arrays.base, seed), 0U);
    const std::size_t sizes_at = contents.gathered[0] < std::byte{0x80}   ? 1
                                 : contents.gathered[1] < std::byte{0x80} ? 2
                                                                          : 3;
    shifts |= 1U << (static_cast<unsigned>(contents.gathered[sizes_at]) & 0x0f);
  };
  for (unsigned shift = 0; shift < 16; ++shift) {
    const std::size_t gap =
        std::size_t{1} << shift;  // clusters so far apart, with gaps of up to an eighth of that
    const std::size_t inner = std::max<std::size_t>(1, gap / 8);
    look([=](std::size_t i) {
      return i % (40 * inner + gap) < 40 * inner && mixed(i) % inner == 0;
    });
    look([=](std::size_t i) {
      return i < gap / 4 ? i % 97 == 0 : i >= gap + gap / 4 && i % 89 == 0;
    });
  }
  look([](std::size_t i) { return i % 2 == 0 && (i < 16'000 || i >= 16'000 + 33'000); });
  EXPECT_EQ(shifts & 0x8001, 0x8001U);
  EXPECT_GT(std::popcount(shifts), 9);
}

// Clusters of any kind: whether two levels pay is a matter of bits.
TEST(TwoLevelChance, IsDecidedAlike) {
  using Int16 = TypeOfElement<DataType::kInt16, std::uint16_t>;
  using Int64 = TypeOfElement<DataType::kInt64, std::uint64_t>;
  std::mt19937_64 random(7);
  unsigned modes = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const std::size_t count = 1 + random() % (seed % 10 == 0 ? kBlockElements : 4'000);
    const std::size_t row = 1 + random() % (1U << random() % 10);
    const auto changes =
        rows(row, 1 + random() % 20, static_cast<std::uint32_t>(1 + random() % 1000));
    const Change kind = std::array{Change::kMostlyOne, Change::kSmall, Change::kAny}[random() % 3];
    SCOPED_TRACE(testing::Message() << count << " elements, rows of " << row << ", seed " << seed);
    if (seed % 2 == 0)
      modes |= check_encoded<Int16>({count, kind, false, seed, changes}, seed);
    else
      modes |= check_encoded<Int64>({count, kind, false, seed, changes}, seed);
  }
  EXPECT_EQ(modes, 0xcdU) << "each of the five";
}

TYPED_TEST(TwoLevelRoutine, RefusesWhatTheCodecRefuses) {
  using Word = typename TestFixture::Element;
  constexpr std::size_t kBlocks = 40;
  std::mt19937_64 random(6);
  std::vector<Word> held(kBlocks * kBlockElements);
  for (Word& element : held) element = static_cast<Word>(random());
  std::size_t refused = 0, all = 0, seed = 0;
  for (const IsChosen& changes : {rows(8, 60), rows(100, 100, 500), between(60'000, 60'100)}) {
    const TwoArrays<Word> arrays(kBlockElements, Change::kMostlyOne, this->is_float, ++seed,
                                 changes);
    for (const codec::BlockMode* mode : {&codec::kTwoLevelMode, &codec::kTwoLevelVerbatimMode}) {
      const Contents good = contents_of<TypeParam>(arrays, *mode);
      const std::span<const std::byte> whole(good.gathered.data(), good.blocks[0].bytes);
      Contents bad;
      for (std::size_t b = 0; b < kBlocks; ++b) {
        std::vector<std::byte> content(whole.begin(), whole.end());
        if (b % 4 == 0) {
          content.resize(random() % 2 == 0 ? random() % content.size()
                                           : content.size() - 1 - random() % 5);
        } else if (b % 4 == 1) {
          content[1 + random() % 3] ^=
              static_cast<std::byte>(1 + random() % 255);  // sizes, and how many are long
        } else {
          damage(content, random);
        }
        bad.add(mode->id, content);
      }
      refused += check_decoded<TypeParam>(bad, held, seed);
      all += kBlocks;
    }
  }
  EXPECT_GT(refused, all / 3) << "the damage does not bite";
  EXPECT_LT(refused, all) << "none was read";
}

// Every end of a content, and every byte of one that is short.
TEST(TwoLevelDamage, IsRefusedWhereverItIs) {
  using Uint8 = TypeOfElement<DataType::kUint8, std::uint8_t>;
  const TwoArrays<std::uint8_t> arrays(400, Change::kMostlyOne, false, 3,
                                       [](std::size_t i) { return i % 100 < 12 && i % 7 != 3; });
  for (const codec::BlockMode* mode : {&codec::kTwoLevelMode, &codec::kTwoLevelVerbatimMode}) {
    const Contents good = contents_of<Uint8>(arrays, *mode);
    std::vector<std::vector<std::byte>> contents;
    const std::vector<std::byte> whole(good.gathered.begin(),
                                       good.gathered.begin() + good.blocks[0].bytes);
    for (std::size_t size = 0; size < whole.size(); ++size)
      contents.emplace_back(whole.begin(), whole.begin() + size);
    for (std::size_t at = 0; at < std::min<std::size_t>(whole.size(), 30); ++at) {
      for (unsigned bit = 0; bit < 8; ++bit) {
        contents.push_back(whole);
        contents.back()[at] ^= static_cast<std::byte>(1U << bit);
      }
    }
    std::size_t refused = 0;
    for (const std::vector<std::byte>& content : contents) {
      Contents bad;
      bad.add(mode->id, content);
      refused += check_decoded<Uint8>(bad, arrays.base, 1);
    }
    EXPECT_GE(refused, whole.size());
    EXPECT_LT(refused, contents.size());
  }
}

TEST(TwoLevelByHand, RefusesWhatTheCodecRefuses) {
  using Int8 = TypeOfElement<DataType::kInt8, std::uint8_t>;
  const std::vector<Written> cases{
      {"nothing but a count", {1}, false},
      {"no number of long gaps", {1, 0x00}, false},
      {"one at 0: none is long, all others are 0", {1, 0x00, 0, 7}, true},
      {"the same with j = 1: one bit of the short gaps", {1, 0x01, 0, 7, 0x01}, true},
      {"one at 1: one long gap from 1 on, J 1 bit, H 4 planes and a one",
       {1, 0x00, 1, 7, 0x21},
       false},
      {"more long gaps than changes", {1, 0x00, 2, 7, 0, 0}, false},
      {"more long gaps than fit: 2^3 of 7", {1, 0x03, 1, 7, 0, 0}, false},
      {"l above j", {1, 0x21, 0, 7, 0x01}, false},
      {"l = j = 15, at 0", {1, 0xff, 0, 7, 0x00, 0x80}, true},
      {"a long varint", {1, 0x00, 0x80, 0x00, 7}, false},
      {"no long gap can be of all", {8, 0x00, 1, 7, 7, 7, 7, 7, 7, 7, 7, 0xff}, false},
      {"all of the block", {8, 0x00, 0, 7, 7, 7, 7, 7, 7, 7, 7}, true},
      {"short gaps past the end: 8 zeros and a one", {1, 0x01, 0, 7, 0x00, 0x01}, false},
      {"short gaps up to the end", {1, 0x01, 0, 7, 0x80}, true},
      {"a byte too many", {1, 0x00, 0, 7, 0}, false},
      {"padding that is not zero", {1, 0x01, 0, 7, 0x03}, false},
      {"both kinds past the end together", {2, 0x02, 1, 7, 9, 0xff, 0x01}, false},
  };
  check_written<Int8>(kernels::kTwoLevelVerbatimBlock, cases);
}

// Heads that allow much, and bits of chance behind them: what is read first decides how far the
// rest goes.
TEST(TwoLevelChance, BytesOfAnySenderAreReadAlike) {
  using Int16 = TypeOfElement<DataType::kInt16, std::uint16_t>;
  std::mt19937_64 random(9);
  std::size_t refused = 0, all = 0;
  for (int round = 0; round < 60; ++round) {
    const std::size_t elements = round % 3 == 0 ? kBlockElements : 1 + random() % 300;
    const std::vector<std::uint16_t> held(elements, 5);
    Contents contents;
    const std::uint32_t count =
        1 + static_cast<std::uint32_t>(random() %
                                       std::min<std::size_t>(elements, 1U << (1 + round % 14)));
    const unsigned long_shift = random() % 16, short_shift = random() % (long_shift + 1);
    const std::uint64_t most = std::min<std::uint64_t>(count, (elements - count) >> long_shift);
    const auto longs = static_cast<std::uint32_t>(random() % (most + 1));
    std::vector<std::byte> content;
    const auto add = [&](std::uint64_t value, std::uint32_t bytes) {
      for (; bytes > 0; --bytes, value >>= 8) content.push_back(static_cast<std::byte>(value));
    };
    const bool has_steps = round % 2 == 0;
    add(varint_of(count).bits, varint_of(count).bytes);
    add(long_shift | short_shift << 4, 1);
    add(varint_of(longs).bits, varint_of(longs).bytes);
    if (has_steps) add(0x40, 1);
    const std::uint64_t few = random() % 4;  // the more ones, the sooner lists end
    for (std::size_t i = random() % (8 * count + 40); i > 0; --i)
      add(few == 0 ? random() : random() | random(), 1);
    contents.add(has_steps ? kernels::kTwoLevelBlock : kernels::kTwoLevelVerbatimBlock, content);
    refused += check_decoded<Int16>(contents, held, static_cast<std::uint64_t>(round));
    ++all;
  }
  EXPECT_GT(refused, all / 2);
}

// All lists of a block, each in one part of the window.
TEST(TwoLevelWindow, HoldsTheListOfShortGaps) {
  for (unsigned long_shift = 1; long_shift <= kernels::kMaxLongShift; ++long_shift) {
    for (std::uint64_t count = 1; count <= kBlockElements; count += 1 + count / 50) {
      const std::uint64_t most =
          std::min(kBlockElements - count, count * ((std::uint64_t{1} << long_shift) - 1));
      for (const std::uint64_t sum : {std::uint64_t{0}, most / 7, most / 2, most}) {
        const unsigned shift = kernels::short_shift(long_shift, count, sum);
        ASSERT_LE(count * shift, kMaxPartBits);
        ASSERT_LE(count + (sum >> shift), kMaxPartBits);
      }
    }
  }
}

// What one routine writes the other reads.
TYPED_TEST(TwoLevelRoutine, ReadsWhatIsEncodedHere) {
  using Word = typename TestFixture::Element;
  for (std::uint64_t seed = 30; seed < 33; ++seed) {
    const TwoArrays<Word> arrays(4 * kBlockElements + 77, Change::kMostlyOne, this->is_float, seed,
                                 rows(1 + 40 * (seed - 30), 60, 900));
    ListedChanges<Word> changes(arrays);
    EncodedArray encoded =
        emulated_encode(arrays, changes, changes.positions.size(), this->is_float, seed);
    DecodedArray<Word> found = emulated_decode<Word>(
        {encoded.contents.data(), encoded.blocks.back().offset}, encoded.blocks, arrays.base,
        changes.positions.size(), this->is_float, seed);
    EXPECT_EQ(found.refused, 0U);
    EXPECT_TRUE(
        std::equal(changes.positions.begin(), changes.positions.end(), found.positions.data()));
    EXPECT_TRUE(
        std::equal(changes.old_values.begin(), changes.old_values.end(), found.old_values.data()));
    EXPECT_TRUE(
        std::equal(changes.new_values.begin(), changes.new_values.end(), found.new_values.data()));
  }
}

}  // namespace
}  // namespace sparcl::test
