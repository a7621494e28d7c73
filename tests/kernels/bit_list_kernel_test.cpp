#include <algorithm>
#include <memory>
#include <utility>

#include "kernels/bit_list.hpp"
#include "tests/kernels/every_body.hpp"

namespace sparcl::kernels {
namespace {

class BitListKernels : public EveryBody {};

struct Gaps {
  std::vector<std::uint16_t> remainders;
  std::vector<std::uint16_t> marks;
  std::size_t trits = 0;
  bool operator==(const Gaps&) const = default;
};

Gaps split(const KernelSet& set, const std::vector<std::uint16_t>& positions, GapDivisor divisor) {
  Gaps gaps{std::vector<std::uint16_t>(positions.size() + kPositionSlack),
            std::vector<std::uint16_t>(positions.size() + kPositionSlack)};
  gaps.trits = set.lists.split_gaps(positions.data(), positions.size(), divisor,
                                    gaps.remainders.data(), gaps.marks.data());
  gaps.remainders.resize(positions.size());
  gaps.marks.resize(positions.size());
  return gaps;
}

// With divisors as the codec would take, so that marks stay below 65,536.
struct List {
  std::vector<std::uint16_t> positions;
  GapDivisor divisor;
};

std::vector<List> lists() {
  std::mt19937_64 random(9);
  std::vector<List> all{{{}, {0}},
                        {{0}, {15}},
                        {{65535}, {15}},
                        {{0, 65535}, {15}},
                        {{0, 1, 2, 3, 4, 5, 6, 7, 8}, {0}}};
  for (const unsigned shift : {0u, 1u, 7u, 14u}) {
    all.push_back({{}, {shift, true}});
    all.push_back({{0, 65535}, {shift, true}});
    all.push_back({{65535}, {shift, true}});
  }
  for (const std::size_t span : {65u, 1000u, 65536u}) {
    for (const auto& [percent, shift] :
         {std::pair(1u, 6u), {5u, 4u}, {30u, 1u}, {60u, 0u}, {100u, 0u}}) {
      all.push_back({random_positions(span, percent, random), {shift}});
      all.push_back({random_positions(span, percent, random), {shift, true}});
    }
  }
  return all;
}

TEST_P(BitListKernels, SplitGapsAgreesWithTheReference) {
  for (const List& list : lists()) {
    ASSERT_TRUE(split(body(), list.positions, list.divisor) ==
                split(reference(), list.positions, list.divisor))
        << list.positions.size();
  }
}

// All gaps that 16 bits hold: no product in place of a division is a little too small or too large
// for one of them.
TEST_P(BitListKernels, EachGapIsDividedByThree) {
  for (const unsigned shift : {0u, 5u, 14u}) {
    for (std::uint32_t gap = 0; gap < 65535 - kPositionSlack; ++gap) {
      std::vector<std::uint16_t> positions(
          1 + kPositionSlack);  // one whole vector after the first, which is done by itself
      for (std::size_t i = 0; i < positions.size(); ++i)
        positions[i] = static_cast<std::uint16_t>(i == 0 ? 0 : gap + i);
      const GapDivisor divisor{shift, true};
      const Gaps gaps = split(body(), positions, divisor);
      ASSERT_EQ(gaps.remainders[1], gap % divisor.value()) << gap << " " << shift;
      ASSERT_EQ(gaps.marks[1], 1 + gap / divisor.value()) << gap << " " << shift;
      ASSERT_EQ(gaps.trits, gap % divisor.value() >> shift != 0 ? 1 : 0) << gap << " " << shift;
    }
  }
}

TEST_P(BitListKernels, JoinGapsUndoesSplitGaps) {
  for (const List& list : lists()) {
    const Gaps gaps = split(reference(), list.positions, list.divisor);
    std::vector<std::uint16_t> positions(list.positions.size() + kPositionSlack);
    const std::uint64_t last =
        body().lists.join_gaps(gaps.remainders.data(), gaps.marks.data(), list.positions.size(),
                               list.divisor, positions.data());
    positions.resize(list.positions.size());
    ASSERT_EQ(positions, list.positions);
    ASSERT_EQ(last, list.positions.empty() ? 0 : list.positions.back());
  }
}

TEST_P(BitListKernels, JoinGapsTellsOfPositionsPast65535) {
  const std::vector<std::uint16_t> remainders(100, 32767);
  std::vector<std::uint16_t> marks(100), positions(100 + kPositionSlack);
  for (std::size_t i = 0; i < marks.size(); ++i) marks[i] = static_cast<std::uint16_t>(i + 60000);
  EXPECT_EQ(body().lists.join_gaps(remainders.data(), marks.data(), 100, {15}, positions.data()),
            (60000ull << 15) + 100 * 32767 + 99);
  EXPECT_EQ(body().lists.join_gaps(remainders.data(), marks.data(), 1, {15}, positions.data()),
            (60000ull << 15) + 32767);
  EXPECT_EQ(
      body().lists.join_gaps(remainders.data(), marks.data(), 100, {14, true}, positions.data()),
      60000ull * 49152 + 100 * 32767 + 99);
}

struct WideList {
  std::vector<std::uint32_t> positions;
  GapDivisor divisor;
};

std::vector<WideList> wide_lists() {
  std::mt19937_64 random(12);
  std::vector<WideList> all{{{}, {0}},
                            {{0}, {16}},
                            {{0xffffffff}, {16}},
                            {{0, 0xfffe0000}, {16}},
                            {{65535, 65536, 65537}, {15}}};
  for (const std::size_t count : interesting_counts()) {
    for (const unsigned gap_bits : {1u, 9u, 18u}) {
      WideList list{{}, {gap_bits > 2 ? gap_bits - 2 : 0}};  // so that marks stay below 65,536
      std::uint64_t next = 0;
      for (std::size_t i = 0; i < count; ++i) {
        next += random() % (1u << gap_bits);
        list.positions.push_back(static_cast<std::uint32_t>(next++));
      }
      all.push_back(list);
      list.divisor = {std::min(14u, list.divisor.shift), true};
      all.push_back(std::move(list));
    }
  }
  return all;
}

Gaps split_wide(const KernelSet& set, const WideList& list) {
  const std::size_t count = list.positions.size();
  Gaps gaps{std::vector<std::uint16_t>(count + kPositionSlack),
            std::vector<std::uint16_t>(count + kPositionSlack)};
  gaps.trits = set.lists.split_wide_gaps(list.positions.data(), count, list.divisor,
                                         gaps.remainders.data(), gaps.marks.data());
  gaps.remainders.resize(count);
  gaps.marks.resize(count);
  return gaps;
}

TEST_P(BitListKernels, WideGapsGoBothWays) {
  for (const WideList& list : wide_lists()) {
    const std::size_t count = list.positions.size();
    const Gaps gaps = split_wide(reference(), list);
    ASSERT_TRUE(split_wide(body(), list) == gaps) << count;
    std::vector<std::uint32_t> positions(count + kPositionSlack);
    const std::uint64_t last = body().lists.join_wide_gaps(
        gaps.remainders.data(), gaps.marks.data(), count, list.divisor, positions.data());
    positions.resize(count);
    ASSERT_EQ(positions, list.positions);
    ASSERT_EQ(last, count == 0 ? 0 : list.positions.back());
  }
}

TEST_P(BitListKernels, JoinWideGapsTellsOfPositionsPast32Bits) {
  const std::vector<std::uint16_t> remainders(100, 65535);
  std::vector<std::uint16_t> marks(100);
  for (std::size_t i = 0; i < marks.size(); ++i) marks[i] = static_cast<std::uint16_t>(i + 65000);
  std::vector<std::uint32_t> positions(100 + kPositionSlack);
  EXPECT_EQ(
      body().lists.join_wide_gaps(remainders.data(), marks.data(), 100, {16}, positions.data()),
      (65000ull << 16) + 100 * 65535 + 99);
}

std::vector<std::byte> packed(const KernelSet& set, const std::vector<std::uint16_t>& values,
                              std::size_t count, unsigned planes, unsigned lead) {
  std::vector<std::byte> bytes((lead + count * planes + 7) / 8 + kBitSlackBytes);
  BitWriter writer{bytes.data()};
  writer.put(low_bits(0x5a5a5a5a5a5a5a5a, lead), lead);
  set.lists.pack_planes(values.data(), count, planes, writer);
  EXPECT_EQ(writer.finish(), bytes.data() + bytes.size() - kBitSlackBytes);
  return bytes;
}

TEST_P(BitListKernels, PlanesGoInAndOutAtAnyBit) {
  std::mt19937_64 random(10);
  for (const std::size_t count : interesting_counts()) {
    for (const unsigned planes : {0u, 1u, 6u, 15u, 16u}) {
      std::vector<std::uint16_t> values(count + kPositionSlack);
      for (std::uint16_t& value : values)
        value = static_cast<std::uint16_t>(random() & ((1u << planes) - 1));
      const auto lead = static_cast<unsigned>(random() % 64);
      const auto bytes = packed(body(), values, count, planes, lead);
      ASSERT_TRUE(bytes == packed(reference(), values, count, planes, lead))
          << count << " values, " << planes << " planes";
      std::vector<std::uint16_t> back(count + kPositionSlack);
      body().lists.unpack_planes(bytes.data(), lead, count, planes, back.data());
      ASSERT_TRUE(std::equal(back.begin(), back.begin() + static_cast<std::ptrdiff_t>(count),
                             values.begin()))
          << count << " values, " << planes << " planes";
    }
  }
}

struct Trits {
  std::vector<std::uint16_t> low;  // room for the kernels
  std::vector<std::uint16_t> remainders;
  std::size_t count = 0;
  std::size_t bits = 0;  // that they take
};

Trits random_trits(std::size_t count, unsigned shift, unsigned percent, std::mt19937_64& random) {
  Trits trits{std::vector<std::uint16_t>(count + kPositionSlack),
              std::vector<std::uint16_t>(count + kPositionSlack), count, count};
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned trit = random() % 100 < percent ? 1 + random() % 2 : 0;
    trits.low[i] = static_cast<std::uint16_t>(random() & ((1u << shift) - 1));
    trits.remainders[i] = static_cast<std::uint16_t>(trits.low[i] | trit << shift);
    trits.bits += trit != 0;
  }
  // Rubbish behind them is not to be seen in the bits.
  for (std::size_t i = count; i < trits.remainders.size(); ++i) trits.remainders[i] = 0xffff;
  return trits;
}

std::vector<std::byte> packed_trits(const KernelSet& set, const Trits& trits, unsigned shift,
                                    unsigned lead) {
  std::vector<std::byte> bytes((lead + trits.bits + 7) / 8 + kBitSlackBytes);
  BitWriter writer{bytes.data()};
  writer.put(low_bits(0x5a5a5a5a5a5a5a5a, lead), lead);
  set.lists.pack_trits(trits.remainders.data(), trits.count, shift, writer);
  EXPECT_EQ(writer.finish(), bytes.data() + bytes.size() - kBitSlackBytes);
  return bytes;
}

TEST_P(BitListKernels, TritsGoInAndOutAtAnyBit) {
  std::mt19937_64 random(13);
  for (const std::size_t count : interesting_counts()) {
    for (const unsigned shift : {0u, 1u, 9u, 14u}) {
      for (const unsigned percent : {0u, 10u, 60u, 100u}) {
        const Trits trits = random_trits(count, shift, percent, random);
        const auto lead = static_cast<unsigned>(random() % 64);
        const auto bytes = packed_trits(body(), trits, shift, lead);
        ASSERT_TRUE(bytes == packed_trits(reference(), trits, shift, lead))
            << count << " " << shift << " " << percent;
        std::vector<std::uint16_t> values = trits.low;
        ASSERT_EQ(
            body().lists.unpack_trits(bytes.data(), lead, trits.bits, count, shift, values.data()),
            trits.bits);
        ASSERT_TRUE(std::equal(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count),
                               trits.remainders.begin()))
            << count << " " << shift << " " << percent;
        if (count == 0) continue;
        // A bit less, and where the first plane does not fit.
        values = trits.low;
        ASSERT_EQ(body().lists.unpack_trits(bytes.data(), lead, trits.bits - 1, count, shift,
                                            values.data()),
                  kNoTrits);
        ASSERT_EQ(
            body().lists.unpack_trits(bytes.data(), lead, count - 1, count, shift, values.data()),
            kNoTrits);
        ASSERT_EQ(values, trits.low);
      }
    }
  }
}

// A plane of ones at the end of what can be read: their second bits are looked at only if they are
// there.
TEST_P(BitListKernels, UnpackTritsReadsNothingPastItsLimit) {
  const std::size_t count = 4096;
  const auto bytes = std::make_unique<std::byte[]>(count / 8 + kBitSlackBytes);
  std::fill_n(bytes.get(), count / 8, std::byte{0xff});
  std::vector<std::uint16_t> values(count + kPositionSlack);
  EXPECT_EQ(body().lists.unpack_trits(bytes.get(), 0, count, count, 3, values.data()), kNoTrits);
}

std::vector<std::byte> bitmap(const KernelSet& set, const std::vector<std::uint16_t>& marks,
                              unsigned lead) {
  const std::size_t bits = marks.empty() ? 0 : marks.back() + std::size_t{1};
  std::vector<std::byte> bytes((lead + bits + 7) / 8 + kBitSlackBytes,
                               std::byte{0x5a});  // nothing is written past the end
  BitWriter writer{bytes.data()};
  writer.put(low_bits(~std::uint64_t{0}, lead), lead);
  set.lists.write_marks(marks.data(), marks.size(), writer);
  EXPECT_EQ(writer.finish(), bytes.data() + bytes.size() - kBitSlackBytes);
  return bytes;
}

TEST_P(BitListKernels, MarksAreFoundWhereTheyWereWritten) {
  std::mt19937_64 random(11);
  for (const std::size_t span : {1u, 63u, 64u, 65u, 700u, 65536u}) {
    for (const unsigned percent : {1u, 30u, 100u}) {
      const auto marks = random_positions(span, percent, random);
      const auto lead = static_cast<unsigned>(random() % 64);
      const auto bytes = bitmap(body(), marks, lead);
      ASSERT_TRUE(bytes == bitmap(reference(), marks, lead)) << span << " " << percent;
      const std::size_t bits = marks.empty() ? 0 : marks.back() + std::size_t{1};
      std::vector<std::uint16_t> found(marks.size() + kPositionSlack);
      ASSERT_EQ(body().lists.find_marks(bytes.data(), lead, bits, marks.size(), found.data()),
                marks.size());
      found.resize(marks.size());
      ASSERT_EQ(found, marks);
    }
  }
}

TEST_P(BitListKernels, FindMarksStopsAtItsLimit) {
  std::vector<std::byte> ones(40 + kBitSlackBytes, std::byte{0xff});
  std::vector<std::uint16_t> marks(400 + kPositionSlack);
  for (const std::uint64_t limit : {0u, 1u, 63u, 64u, 65u, 300u}) {
    EXPECT_EQ(body().lists.find_marks(ones.data(), 5, limit, 400, marks.data()), limit);
    EXPECT_EQ(body().lists.find_marks(ones.data(), 5, limit, 40, marks.data()),
              std::min<std::uint64_t>(limit, 40));
  }
}

SPARCL_FOR_EVERY_BODY(BitListKernels);

}  // namespace
}  // namespace sparcl::kernels
