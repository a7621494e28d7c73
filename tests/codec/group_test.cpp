#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "src/codec/block_mode.hpp"
#include "src/codec/group_decoder.hpp"
#include "tests/codec/both_decoders.hpp"
#include "tests/codec/stream_surgery.hpp"
#include "tests/support/tier.hpp"

namespace sparcl::codec {
namespace {

const BlockMode* const kGroupModes[] = {&kFlatGroupMode, &kTwoLevelGroupMode, &kBlockSparseMode};

// Two runs that groups may not cross, the second with a last block that is short.
const std::vector<ArraySpec> kGroupedSpecs{
    {DataType::kBfloat16, 400'000}, {DataType::kBfloat16, 7}, {DataType::kFloat32, 300'001}};

// Changes in a few places only, or strewn; whole blocks between them stay as they are.
State sparsely_changed(const State& base, double density, bool clustered, std::uint64_t seed) {
  const State all = changed_state(base, density, Change::kUlp, seed);
  if (!clustered) return all;
  State some = base;
  for (std::size_t i = 0; i < some.arrays.size(); ++i) {
    const std::size_t width = element_bytes(some.specs[i].datatype);
    for (std::size_t first = 0; first < some.arrays[i].size(); first += 150'000 * width) {
      const std::size_t bytes = std::min(300 * width, some.arrays[i].size() - first);
      std::copy_n(all.arrays[i].begin() + static_cast<std::ptrdiff_t>(first), bytes,
                  some.arrays[i].begin() + static_cast<std::ptrdiff_t>(first));
    }
  }
  return some;
}

TEST(Groups, ComeBackFromBothDecodersAtEveryLevel) {
  const State base = random_state(kGroupedSpecs, 1);
  std::set<unsigned> met;
  for (const double density : {0.00002, 0.001, 0.02}) {
    for (const bool clustered : {false, true}) {
      for (const BlockMode* mode : {static_cast<const BlockMode*>(nullptr), kGroupModes[0],
                                    kGroupModes[1], kGroupModes[2]}) {
        const State target = sparsely_changed(base, clustered ? 0.3 : density, clustered, 2);
        const Bytes stream = encode(base, target, with_hash(mode)).bytes;
        for (const BlockMode* each : kGroupModes) {
          if (count_blocks(stream, each->id) > 0) met.insert(each->id);
        }
        for (const Verify verify : {Verify::kOff, Verify::kTouched, Verify::kFull}) {
          const oracle::UpdateOutcome outcome = run_oracle(stream, base, {}, verify);
          ASSERT_EQ(outcome.finding, oracle::Finding::kAccepted) << outcome.reason;
          ASSERT_TRUE(outcome.arrays == target.arrays);
          for (const Writing writing : {Writing::kStaged, Writing::kEarly}) {
            const Decoded decoded = run_decoder(stream, base, {}, {verify, writing});
            ASSERT_TRUE(decoded.status.ok()) << decoded.status.message();
            ASSERT_TRUE(decoded.state.arrays == target.arrays);
          }
        }
      }
    }
  }
  EXPECT_EQ(met.size(), 3u);
}

TEST(Groups, AreTheSameBytesFromEveryBody) {
  const State base = random_state(kGroupedSpecs, 3);
  const State target = sparsely_changed(base, 0.01, false, 4);
  for (const BlockMode* mode : kGroupModes) {
    const Bytes stream = encode(base, target, with_hash(mode), kernels::reference_kernels()).bytes;
    for (const kernels::KernelSet& set : kernels::all_cpu_kernels()) {
      EXPECT_TRUE(encode(base, target, with_hash(mode), set).bytes == stream)
          << mode->name << " by " << set.name;
    }
  }
}

TEST(Groups, NeverCrossARun) {
  const State base = random_state(kGroupedSpecs, 5);
  const Bytes stream =
      encode(base, sparsely_changed(base, 0.001, false, 6), with_hash(nullptr)).bytes;
  EXPECT_EQ(count_blocks(stream, kFlatGroupMode.id), 2u);
}

TEST(Groups, SaveWhatSectionsCost) {
  const State base = random_state({{DataType::kBfloat16, 4'000'000}}, 7);
  for (const double density : {0.00001, 0.0001, 0.003}) {
    const State target = changed_state(base, density, Change::kUlp, 8);
    const std::size_t alone = encode(base, target, with_hash(&kFlatMode)).bytes.size();
    EXPECT_LT(encode(base, target, with_hash(nullptr)).bytes.size(), alone) << density;
  }
}

// Dense blocks between sparse ones: neither waits for the other.
TEST(Groups, StandBetweenOtherBlocks) {
  const State base = random_state({{DataType::kInt16, 12 * 65536}}, 9);
  State target = changed_state(base, 0.0005, Change::kUlp, 10);
  const State dense = changed_state(base, 0.5, Change::kRandom, 11);
  for (const std::size_t block : {3u, 4u, 8u}) {
    const auto first = static_cast<std::ptrdiff_t>(block * 2 * 65536);
    std::copy_n(dense.arrays[0].begin() + first, 2 * 65536, target.arrays[0].begin() + first);
  }
  const Bytes stream = encode(base, target, with_hash(nullptr)).bytes;
  EXPECT_EQ(count_blocks(stream, kFlatGroupMode.id), 3u);
  const Decoded decoded = run_decoder(stream, base, {}, {});
  ASSERT_TRUE(decoded.status.ok()) << decoded.status.message();
  EXPECT_TRUE(decoded.state.arrays == target.arrays);
}

TEST(Groups, AWrongBaseIsRefusedAndLeftAsItWas) {
  const State base = random_state(kGroupedSpecs, 12);
  const State target = changed_state(base, 0.01, Change::kUlp, 13);
  const Bytes stream = encode(base, target, with_hash(nullptr)).bytes;
  State other = target;  // one element short of the target
  for (std::size_t i = 399'000; i < other.arrays[0].size(); ++i)
    other.arrays[0][i] = base.arrays[0][i];
  for (const Writing writing : {Writing::kStaged, Writing::kEarly}) {
    for (const Verify verify : {Verify::kTouched, Verify::kFull}) {
      const Decoded decoded = run_decoder(stream, other, {}, {verify, writing});
      EXPECT_EQ(decoded.status.code(), Code::kWrongBase) << decoded.status.message();
      EXPECT_TRUE(decoded.state.arrays == other.arrays);
      const Decoded repeated = run_decoder(stream, target, {}, {verify, writing});
      EXPECT_TRUE(repeated.status.ok()) << repeated.status.message();
      EXPECT_TRUE(repeated.state.arrays == target.arrays);
    }
  }
}

// The content of the first section of the mode, without its old check.
Bytes content_of(const Bytes& stream, const BlockMode& mode) {
  for (const RawSection& section : take_apart(stream).sections) {
    if (section.tag != kTagBlock + mode.id) continue;
    return {section.content.begin(),
            section.content.end() - static_cast<std::ptrdiff_t>(kOldCheckBytes)};
  }
  return {};
}

TEST(GroupMutations, AreRefusedOrStayInsideTheGroup) {
  const State base = random_state({{DataType::kInt8, 300'000}}, 14);
  std::mt19937_64 random(15);
  for (const BlockMode* mode : kGroupModes) {
    const Bytes good = content_of(
        encode(base, sparsely_changed(base, 0.001, false, 16), with_hash(mode)).bytes, *mode);
    ASSERT_FALSE(good.empty());
    GroupDecoder decoder;
    std::size_t refused = 0;
    const std::size_t seeds = test::by_tier(4000u, 400000u);
    for (std::size_t seed = 0; seed < seeds; ++seed) {
      Bytes bad = good;
      for (std::uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
        const std::size_t at =
            random() % std::min<std::size_t>(bad.size(), random() % 2 == 0 ? 16 : bad.size());
        bad[at] = random() % 2 == 0 ? bad[at] ^ static_cast<std::byte>(1 << random() % 8)
                                    : static_cast<std::byte>(random());
      }
      const std::size_t bytes = bad.size() - (random() % 8 == 0 ? random() % bad.size() : 0);
      bad.resize(bytes);
      bad.resize(bytes + kernels::kBitSlackBytes);
      if (decoder.read(kernels::cpu_kernels(), mode->id, DataType::kInt8, 300'000,
                       {bad.data(), bytes}) != nullptr) {
        ++refused;
        continue;
      }
      std::size_t changes = 0;
      DecodedBlock block;
      for (std::uint32_t next = 0, last = 0; decoder.has_more(); last = next + 1) {
        next = decoder.next_block();
        ASSERT_GE(next, last);
        const std::uint32_t elements = std::min<std::uint32_t>(65536, 300'000 - next * 65536);
        decoder.take(next, {DataType::kInt8, elements}, block);
        const auto changed = block.changed();
        ASSERT_GE(changed.size(), 1u);
        ASSERT_LT(changed.back(), elements);
        ASSERT_TRUE(std::ranges::adjacent_find(changed, std::greater_equal<>()) == changed.end());
        changes += changed.size();
      }
      ASSERT_EQ(changes, decoder.changes());
    }
    EXPECT_GT(refused, seeds / 10) << mode->name << ": the mutations do not bite";
  }
}

// A group of int8 whose elements 0 and `last` change by one, as two levels with all gaps short and
// without low bits: the unary part of P has last + 1 bits.
void expect_one_unary_part(std::uint32_t last, Code code) {
  const State base{{{DataType::kInt8, 2 * std::uint64_t{kBlockElements}}},
                   {Array(2 * kBlockElements)}};
  State target = base;
  target.arrays[0][0] = target.arrays[0][last] = std::byte{1};
  RawStream stream = take_apart(encode(base, target, with_hash(&kFlatGroupMode)).bytes);
  RawSection& group = stream.sections[stream.find(kTagBlock + kFlatGroupId)];
  group.tag = kTagBlock + kTwoLevelGroupId;
  // Blocks less one, k, sizes (long gaps from 2^15 on), s, parameters, x; signs, the two changes'
  // bits, the old check.
  Bytes content{std::byte(last / kBlockElements),
                std::byte{2},
                std::byte{0x0f},
                std::byte{0},
                std::byte{0},
                std::byte{0}};
  content.resize(6 + (2 + last + 1 + 7) / 8);
  for (const std::uint32_t bit : {2u, 2 + last}) content[6 + bit / 8] |= std::byte(1u << (bit % 8));
  content.insert(content.end(), group.content.end() - kOldCheckBytes, group.content.end());
  group.content = content;
  const Bytes bytes = put_together(stream);
  for (const Verify verify : {Verify::kOff, Verify::kTouched, Verify::kFull}) {
    const Decoded decoded = run_decoder(bytes, base, {}, {verify});
    EXPECT_EQ(decoded.status.code(), code) << last << ": " << decoded.status.message();
    const auto differs = difference(decoded, base, run_oracle(bytes, base, {}, verify));
    EXPECT_FALSE(differs.has_value()) << last << ": " << *differs;
  }
}

TEST(Groups, ShortGapsTakeAtMost65536UnaryBits) {
  expect_one_unary_part(65535, Code::kSuccess);
  expect_one_unary_part(65536, Code::kCorrupt);
  expect_one_unary_part(131071, Code::kCorrupt);
}

}  // namespace
}  // namespace sparcl::codec
