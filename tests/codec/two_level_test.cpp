#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include "src/codec/block_mode.hpp"
#include "src/codec/two_level_list.hpp"
#include "tests/codec/codec_support.hpp"
#include "tests/codec/mode_support.hpp"
#include "tests/codec/stream_surgery.hpp"
#include "tests/support/tier.hpp"

namespace sparcl::codec {
namespace {

using Random = std::mt19937_64;

// Runs of active elements, a share of which changes.
std::vector<std::uint16_t> clustered_positions(std::uint32_t elements, double inside, double active,
                                               double run, Random& random) {
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<std::uint16_t> positions;
  bool is_active = uniform(random) < active;
  for (std::uint32_t i = 0; i < elements; ++i) {
    if (is_active && uniform(random) < inside) positions.push_back(static_cast<std::uint16_t>(i));
    const double leave = (is_active ? 1 - active : active) / run;
    if (uniform(random) < leave) is_active = !is_active;
  }
  return positions;
}

// Bits of the list where it was written and read back.
std::uint64_t expect_list_comes_back(std::vector<std::uint16_t> positions, std::uint32_t elements,
                                     const kernels::KernelSet& kernels) {
  const std::size_t count = positions.size();
  std::vector<std::uint16_t> padded = positions;
  padded.resize(count + kernels::kPositionSlack);
  TwoLevelList list;
  if (!list.prepare(kernels.lists, {padded.data(), count}, elements, TwoLevelList::kAnySize,
                    true)) {
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
  TwoLevelReader reader;
  std::vector<std::uint16_t> read(count + kernels::kPositionSlack);
  EXPECT_TRUE(reader.read_head(payload, elements, count));
  BitCursor cursor{payload.data(), 0, 8 * payload.size()};
  EXPECT_TRUE(reader.read_planes(kernels.lists, cursor));
  EXPECT_TRUE(reader.read_unary(kernels.lists, cursor, read.data()));
  EXPECT_TRUE(ends_cleanly(cursor));
  read.resize(count);
  EXPECT_TRUE(read == positions) << elements << " elements, " << count << " changes";
  return list.bits();
}

TEST(TwoLevelList, ComesBackWhateverTheClusters) {
  Random random(1);
  for (const kernels::KernelSet* kernels : kernel_sets()) {
    for (const std::uint32_t elements :
         {1u, 2u, 15u, 16u, 17u, 127u, 129u, 4096u, 5000u, 65535u, 65536u}) {
      for (const double inside : {0.001, 0.05, 0.4, 0.5, 0.9, 1.0}) {
        for (const double run : {3.0, 100.0, 3000.0}) {
          auto positions = clustered_positions(elements, inside, 0.1, run, random);
          if (positions.empty())
            positions.push_back(static_cast<std::uint16_t>(random() % elements));
          expect_list_comes_back(positions, elements, *kernels);
        }
      }
    }
  }
}

TEST(TwoLevelList, ComesBackAtTheEdges) {
  for (const kernels::KernelSet* kernels : kernel_sets()) {
    for (const std::uint32_t elements : {1u, 16u, 20u, 65521u, 65536u}) {
      std::vector<std::uint16_t> all(elements);
      std::iota(all.begin(), all.end(), std::uint16_t{0});
      expect_list_comes_back(all, elements, *kernels);
      expect_list_comes_back({all.front()}, elements, *kernels);
      expect_list_comes_back({all.back()}, elements, *kernels);
      if (elements == 1) continue;
      expect_list_comes_back({all.front(), all.back()}, elements, *kernels);
      expect_list_comes_back({all.begin() + 1, all.end()}, elements, *kernels);
      expect_list_comes_back({all.begin(), all.end() - 1}, elements, *kernels);
      expect_list_comes_back({all.end() - std::min<std::ptrdiff_t>(elements, 40), all.end()},
                             elements, *kernels);
    }
  }
}

TEST(TwoLevelList, TakesNextToNothingForBlocksThatChangeWhole) {
  std::vector<std::uint16_t> positions;
  for (const unsigned block : {3u, 4u, 90u, 511u}) {
    for (unsigned i = 0; i < 128; ++i)
      positions.push_back(static_cast<std::uint16_t>(block * 128 + i));
  }
  EXPECT_LE(expect_list_comes_back(positions, 65536, kernels::cpu_kernels()), 8 * 12u);
}

TEST(TwoLevelList, IsNotUsedForChangesStrewnIndependently) {
  Random random(2);
  const kernels::KernelSet& kernels = kernels::cpu_kernels();
  for (const double density : {0.003, 0.01, 0.05, 0.2}) {
    auto positions = clustered_positions(65536, density, 1, 1, random);
    const std::size_t count = positions.size();
    positions.resize(count + kernels::kPositionSlack);
    RiceList flat;
    flat.prepare(kernels.lists, {positions.data(), count}, 65536);
    TwoLevelList list;
    EXPECT_FALSE(list.prepare(kernels.lists, {positions.data(), count}, 65536, flat.bits(), false))
        << density;
  }
}

// In the same way as a block's, but with positions of a group of blocks.
TEST(WideTwoLevelList, ComesBackOverManyBlocks) {
  Random random(3);
  for (const kernels::KernelSet* kernels : kernel_sets()) {
    for (const std::uint32_t elements : {70000u, 1u << 20, 1u << 24}) {
      std::vector<std::uint32_t> positions;
      for (std::uint64_t next = random() % 100000; next < elements && positions.size() < 3000;
           next += 1 + (random() % 50 == 0 ? random() % 300000 : random() % 9)) {
        positions.push_back(static_cast<std::uint32_t>(next));
      }
      if (positions.empty()) positions.push_back(elements - 1);
      BasicTwoLevelList<std::uint32_t> list;
      ASSERT_TRUE(list.prepare(kernels->lists, positions, elements, TwoLevelList::kAnySize, true));
      std::vector<std::byte> out(list.head_bytes() + (list.bits() + 7) / 8 +
                                 kernels::kBitSlackBytes);
      kernels::BitWriter bits{list.write_head(out.data())};
      list.write_planes(kernels->lists, bits);
      list.write_unary(kernels->lists, bits);
      ASSERT_EQ(bits.finish(), out.data() + out.size() - kernels::kBitSlackBytes);
      std::span<const std::byte> payload(out.data(), out.size() - kernels::kBitSlackBytes);
      BasicTwoLevelReader<std::uint32_t> reader;
      std::vector<std::uint32_t> read(positions.size() + kernels::kPositionSlack);
      ASSERT_TRUE(reader.read_head(payload, elements, positions.size()));
      BitCursor cursor{payload.data(), 0, 8 * payload.size()};
      ASSERT_TRUE(reader.read_planes(kernels->lists, cursor));
      ASSERT_TRUE(reader.read_unary(kernels->lists, cursor, read.data()));
      ASSERT_TRUE(ends_cleanly(cursor));
      read.resize(positions.size());
      ASSERT_EQ(read, positions);
    }
  }
}

// A state whose changes come in clusters: whole runs, or a share of their elements.
State clustered_state(const State& base, double inside, std::uint64_t seed) {
  Random random(seed);
  State state = base;
  for (std::size_t i = 0; i < state.arrays.size(); ++i) {
    const std::size_t width = element_bytes(state.specs[i].datatype);
    for (std::uint64_t first = 0; first < state.specs[i].count; first += 65536) {
      const auto count =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(65536, state.specs[i].count - first));
      for (const std::uint16_t position : clustered_positions(count, inside, 0.05, 700, random)) {
        std::byte* at = state.arrays[i].data() + (first + position) * width;
        *at = static_cast<std::byte>(static_cast<unsigned>(*at) + 1 + random() % 2);
      }
    }
  }
  return state;
}

std::set<std::string> modes_of(const Bytes& stream) {
  std::set<std::string> names;
  for (const RawSection& section : take_apart(stream).sections) {
    if (is_block(section.tag)) names.insert(find_block_mode(mode_of(section.tag))->name);
  }
  return names;
}

TEST(TwoLevelUpdate, ComesBackAndIsSmallerThanFlat) {
  for (const DataType type :
       {DataType::kInt8, DataType::kBfloat16, DataType::kFloat32, DataType::kFloat64}) {
    for (const double inside : {0.2, 0.6, 1.0}) {
      const State base = random_state({{type, 200000}}, 3);
      const State target = clustered_state(base, inside, 4);
      EncodeOptions flat;
      flat.mode = &kFlatMode;
      const Encoded encoded = encode(base, target);
      const std::set<std::string> modes = modes_of(encoded.bytes);
      EXPECT_TRUE(modes.contains("two_level") || modes.contains("two_level_group")) << inside;
      EXPECT_LT(encoded.bytes.size(), encode(base, target, flat).bytes.size()) << inside;
      for (const Writing writing : {Writing::kStaged, Writing::kEarly}) {
        State held = base;
        ASSERT_TRUE(decode_writing(encoded.bytes, held, writing).ok());
        ASSERT_TRUE(held.arrays == target.arrays);
      }
    }
  }
}

TEST(TwoLevelMutations, AreRefusedOrStayInsideTheBlock) {
  for (const BlockMode* mode : {&kTwoLevelMode, &kTwoLevelVerbatimMode}) {
    for (const DataType type : {DataType::kInt8, DataType::kBfloat16, DataType::kFloat64}) {
      expect_mutations_are_harmless(*mode, type, test::by_tier(4000u, 400000u));
    }
  }
}

}  // namespace
}  // namespace sparcl::codec
