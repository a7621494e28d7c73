#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

#include "src/codec/block_mode.hpp"
#include "src/codec/block_sparse_list.hpp"
#include "tests/codec/both_decoders.hpp"
#include "tests/codec/stream_surgery.hpp"

namespace sparcl::codec {
namespace {

using Random = std::mt19937_64;
using Look = BlockSparseList::Look;

// A share `inside` of the elements of a share `active` of the sub-blocks; at least one.
template <class Position>
std::vector<Position> masked_positions(std::uint32_t elements, unsigned shift, double active,
                                       double inside, Random& random, std::size_t most = 65536) {
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<Position> positions;
  for (std::uint64_t first = 0; first < elements; first += std::uint64_t{1} << shift) {
    if (uniform(random) >= active) continue;
    const std::uint64_t end =
        std::min<std::uint64_t>(elements, first + (std::uint64_t{1} << shift));
    for (std::uint64_t i = first; i < end && positions.size() < most; ++i) {
      if (inside == 1 || uniform(random) < inside) positions.push_back(static_cast<Position>(i));
    }
  }
  if (positions.empty()) positions.push_back(static_cast<Position>(random() % elements));
  return positions;
}

// Bits of the list where it was written and read back.
template <class Position>
std::uint64_t expect_list_comes_back(const std::vector<Position>& positions, std::uint32_t elements,
                                     const kernels::KernelSet& kernels) {
  const std::size_t count = positions.size();
  std::vector<Position> padded = positions;
  padded.resize(count + kernels::kPositionSlack);
  BlockSparseList list;
  if (!list.prepare(kernels.lists, std::span<const Position>(padded.data(), count), elements,
                    std::uint64_t{1} << 40, Look::kThorough)) {
    ADD_FAILURE() << "not prepared";
    return 0;
  }
  std::vector<std::byte> out(list.head_bytes() + (list.bits() + 7) / 8 + kernels::kBitSlackBytes);
  kernels::BitWriter bits{list.write_head(out.data())};
  EXPECT_EQ(bits.at, out.data() + list.head_bytes());
  list.write_planes(kernels.lists, bits);
  list.write_unary(kernels.lists, bits);
  EXPECT_EQ(bits.finish(), out.data() + out.size() - kernels::kBitSlackBytes);

  std::span<const std::byte> payload(out.data(), out.size() - kernels::kBitSlackBytes);
  BlockSparseReader reader;
  std::vector<std::uint32_t> read(count + kernels::kPositionSlack);
  EXPECT_TRUE(reader.read_head(payload, elements, count));
  BitCursor cursor{payload.data(), 0, 8 * payload.size()};
  EXPECT_TRUE(reader.read_planes(kernels.lists, cursor));
  EXPECT_TRUE(reader.read_unary(kernels.lists, cursor, read.data()));
  EXPECT_TRUE(ends_cleanly(cursor));
  read.resize(count);
  EXPECT_TRUE(std::ranges::equal(read, positions))
      << elements << " elements, " << count << " changes";
  return list.bits();
}

TEST(BlockSparseList, ComesBackWhateverTheSubBlocks) {
  Random random(1);
  for (const kernels::KernelSet* kernels : kernel_sets()) {
    for (const std::uint32_t elements : {1u, 2u, 17u, 4096u, 5001u, 65535u, 65536u}) {
      for (unsigned shift = 1; shift <= kMaxSubShift; ++shift) {
        for (const double inside : {0.02, 0.3, 0.9, 1.0}) {
          const auto positions =
              masked_positions<std::uint16_t>(elements, shift, 0.2, inside, random);
          expect_list_comes_back(positions, elements, *kernels);
        }
      }
    }
  }
}

TEST(BlockSparseList, ComesBackOverManyBlocks) {
  Random random(2);
  for (const kernels::KernelSet* kernels : kernel_sets()) {
    for (const std::uint32_t elements : {65537u, 1u << 20, (1u << 24) - 3}) {
      for (const unsigned shift : {1u, 3u, 7u, 12u, 15u}) {
        for (const double inside : {0.002, 0.3, 0.9, 1.0}) {
          const auto positions =
              masked_positions<std::uint32_t>(elements, shift, 0.01, inside, random, 16384);
          expect_list_comes_back(positions, elements, *kernels);
        }
      }
    }
  }
}

TEST(BlockSparseList, ComesBackAtTheEdges) {
  for (const kernels::KernelSet* kernels : kernel_sets()) {
    for (const std::uint32_t elements : {1u, 2u, 20u, 65521u, 65536u}) {
      std::vector<std::uint16_t> all(elements);
      std::iota(all.begin(), all.end(), std::uint16_t{0});
      using List = std::vector<std::uint16_t>;
      expect_list_comes_back(all, elements, *kernels);
      expect_list_comes_back(List{all.front()}, elements, *kernels);
      expect_list_comes_back(List{all.back()}, elements, *kernels);
      if (elements == 1) continue;
      expect_list_comes_back(List{all.front(), all.back()}, elements, *kernels);
      expect_list_comes_back(List(all.begin() + 1, all.end()), elements, *kernels);
      expect_list_comes_back(List(all.begin(), all.end() - 1), elements, *kernels);
    }
  }
}

TEST(BlockSparseList, FindsTheLargestWholeSubBlocks) {
  Random random(3);
  for (const std::uint32_t elements : {65536u, 65536u - 5}) {
    for (unsigned shift = 1; shift <= kMaxSubShift; ++shift) {
      std::vector<std::uint16_t> positions;
      for (const unsigned sub :
           {0u, 1u, 3u, (elements - 1) >> shift}) {  // 0 and 1 would be one of twice the size
        for (std::uint32_t i = sub << shift; i < std::min(elements, (sub + 1) << shift); ++i) {
          positions.push_back(static_cast<std::uint16_t>(i));
        }
      }
      std::ranges::sort(positions);
      positions.erase(std::ranges::unique(positions).begin(), positions.end());
      const std::span<const std::uint16_t> span(positions);
      const bool all = positions.size() == elements;
      EXPECT_EQ(whole_sub_shift(span, elements),
                all || shift == kMaxSubShift ? kMaxSubShift : shift)
          << elements;
      EXPECT_EQ(whole_sub_shift(span.subspan(1), elements), 0u) << "an odd place";
      positions.erase(positions.begin() + static_cast<std::ptrdiff_t>(random() % positions.size()));
      EXPECT_EQ(whole_sub_shift(std::span<const std::uint16_t>(positions), elements), 0u)
          << "one is missing";
    }
  }
}

TEST(BlockSparseList, TakesForAWholeSubBlockWhatOneChangeTakes) {
  Random random(4);
  for (const unsigned shift : {3u, 6u, 9u}) {
    const auto positions = masked_positions<std::uint16_t>(65536, shift, 0.05, 1, random);
    std::vector<std::uint16_t> subs;
    for (std::size_t i = 0; i < positions.size(); i += std::size_t{1} << shift) {
      subs.push_back(static_cast<std::uint16_t>(positions[i] >> shift));
    }
    const std::size_t count = subs.size();
    subs.resize(count + kernels::kPositionSlack);
    RiceList one_each;
    one_each.prepare(kernels::cpu_kernels().lists,
                     std::span<const std::uint16_t>(subs.data(), count), 65536 >> shift);
    EXPECT_EQ(expect_list_comes_back(positions, 65536, kernels::cpu_kernels()), one_each.bits());
  }
}

TEST(BlockSparseList, IsRefusedForChangesStrewnIndependently) {
  Random random(5);
  const kernels::KernelSet& kernels = kernels::cpu_kernels();
  for (const double density : {0.003, 0.01, 0.05, 0.2}) {
    auto positions = masked_positions<std::uint16_t>(65536, 0, density, 1, random);
    const std::size_t count = positions.size();
    positions.resize(count + kernels::kPositionSlack);
    const std::span<const std::uint16_t> span(positions.data(), count);
    RiceList flat;
    flat.prepare(kernels.lists, span, 65536);
    BlockSparseList list;
    for (const Look look : {Look::kWhole, Look::kAlsoPartly, Look::kThorough}) {
      EXPECT_FALSE(list.prepare(kernels.lists, span, 65536, flat.bits(), look)) << density;
    }
  }
}

// Masks of whole sub-blocks of `size` elements, all arrays alike.
State masked_state(const State& base, std::size_t size, double active, double inside,
                   std::uint64_t seed) {
  Random random(seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  const State all = changed_state(base, inside, Change::kUlp, seed + 1);
  State target = base;
  for (std::size_t i = 0; i < base.arrays.size(); ++i) {
    const std::size_t bytes = size * element_bytes(base.specs[i].datatype);
    for (std::size_t first = 0; first < base.arrays[i].size(); first += bytes) {
      if (uniform(random) >= active) continue;
      const std::size_t end = std::min(base.arrays[i].size(), first + bytes);
      std::copy(all.arrays[i].begin() + static_cast<std::ptrdiff_t>(first),
                all.arrays[i].begin() + static_cast<std::ptrdiff_t>(end),
                target.arrays[i].begin() + static_cast<std::ptrdiff_t>(first));
    }
  }
  return target;
}

// Few changes, and so many that a block is one section.
TEST(BlockSparse, ComesBackFromBothDecoders) {
  const State base = random_state(
      {{DataType::kBfloat16, 200'000}, {DataType::kFloat64, 70'007}, {DataType::kInt8, 3}}, 6);
  for (const std::size_t size : {8u, 100u, 4096u}) {
    for (const double active : {0.02, 0.6}) {
      for (const double inside : {0.3, 1.0}) {
        const State target = masked_state(base, size, active, inside, 7);
        for (const BlockMode* mode : {static_cast<const BlockMode*>(nullptr), &kBlockSparseMode}) {
          const Bytes stream = encode(base, target, with_hash(mode)).bytes;
          for (const kernels::KernelSet* set : kernel_sets()) {
            ASSERT_TRUE(encode(base, target, with_hash(mode), *set).bytes == stream) << set->name;
          }
          EXPECT_TRUE(mode == nullptr || count_blocks(stream, kBlockSparseMode.id) > 0);
          const oracle::UpdateOutcome outcome = run_oracle(stream, base, {}, Verify::kFull);
          ASSERT_EQ(outcome.finding, oracle::Finding::kAccepted) << outcome.reason;
          ASSERT_TRUE(outcome.arrays == target.arrays);
          for (const Writing writing : {Writing::kStaged, Writing::kEarly}) {
            const Decoded decoded = run_decoder(stream, base, {}, {Verify::kFull, writing});
            ASSERT_TRUE(decoded.status.ok()) << decoded.status.message();
            ASSERT_TRUE(decoded.state.arrays == target.arrays);
          }
        }
      }
    }
  }
}

TEST(BlockSparse, IsChosenForMasksAndMakesThemSmaller) {
  const State base = random_state({{DataType::kBfloat16, 500'000}}, 8);
  for (const std::size_t size : {8u, 32u, 256u}) {
    for (const double active : {0.01, 0.1}) {
      for (const double inside : {0.25, 1.0}) {
        const State target = masked_state(base, size, active, inside, 9);
        const Bytes stream = encode(base, target, with_hash()).bytes;
        EXPECT_GT(count_blocks(stream, kBlockSparseMode.id), 0u)
            << size << " " << active << " " << inside;
        for (const BlockMode* mode :
             {&kFlatMode, &kTwoLevelMode, &kFlatGroupMode, &kTwoLevelGroupMode}) {
          EXPECT_LT(stream.size(), encode(base, target, with_hash(mode)).bytes.size())
              << mode->name << " " << size;
        }
      }
    }
  }
}

// A group has sub-blocks of one size: neighbours with another must not pay for it.
TEST(BlockSparse, MasksOfDifferentSizesSideBySideAreNoLargerThanApart) {
  const auto bytes_of = [](const State& base, const State& target) {
    return static_cast<double>(encode(base, target, with_hash()).bytes.size());
  };
  const State base = random_state({{DataType::kBfloat16, 65536}}, 10);
  const State coarse = masked_state(base, 512, 0.02, 1, 11);
  const State fine = masked_state(base, 8, 0.01, 1, 12);
  const State strewn = changed_state(base, 0.003, Change::kUlp, 13);
  for (const State* other : {&fine, &strewn}) {
    State both_base = base;
    State both = coarse;
    for (State* state : {&both_base, &both}) {
      state->specs.push_back(base.specs[0]);
      state->arrays.push_back(base.arrays[0]);
    }
    both.arrays[1] = other->arrays[0];
    EXPECT_LT(bytes_of(both_base, both), bytes_of(base, coarse) + bytes_of(base, *other));
  }
}

// Whole blocks of small weights next to others of large ones: classes know more, but not that.
TEST(BlockSparse, IsNotPassedOverWhereClassesAreAllowed) {
  const State base = random_state({{DataType::kBfloat16, 4 * 65536}}, 14);
  const State target = masked_state(base, 64, 0.01, 1, 15);
  EncodeOptions options = with_hash();
  const std::size_t alone = encode(base, target, options).bytes.size();
  options.allow_classes = true;
  EXPECT_LE(encode(base, target, options).bytes.size(), alone + alone / 20);
}

}  // namespace
}  // namespace sparcl::codec
