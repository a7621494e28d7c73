#include "src/codec/time_cost.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "src/codec/block_mode.hpp"
#include "src/codec/change_rule.hpp"
#include "tests/codec/codec_support.hpp"
#include "tests/codec/stream_surgery.hpp"

namespace sparcl::codec {
namespace {

constexpr LinkTime kSharedMemory{200, true};
constexpr LinkTime kFastLink{80, false};    // 100 Gbit/s
constexpr LinkTime kUsualLink{833, false};  // 10 Gbit/s
constexpr LinkTime kSlowLink{8000, false};  // 1 Gbit/s

std::size_t whole_blocks(const Bytes& stream, std::size_t& blocks) {
  std::size_t whole = 0;
  blocks = 0;
  for (const RawSection& section : take_apart(stream).sections) {
    if (!is_block(section.tag)) continue;
    ++blocks;
    whole += find_block_mode(mode_of(section.tag))->whole;
  }
  return whole;
}

TEST(TimeCost, TakesWholeBlocksWhereMuchChangesAndNoOthers) {
  for (const DataType type :
       {DataType::kInt8, DataType::kBfloat16, DataType::kFloat32, DataType::kFloat64}) {
    const State base = random_state({{type, 200'000}}, 1);
    for (const double density : {0.0001, 0.01, 0.05, 0.5, 1.0}) {
      const State target = changed_state(base, density, Change::kUlp, 2);
      EncodeOptions options;
      options.with_state_hash = true;
      options.link = kSharedMemory;
      const Encoded encoded = encode(base, target, options);
      ASSERT_TRUE(encoded.status.ok()) << encoded.status.message();
      std::size_t blocks = 0;
      const std::size_t whole = whole_blocks(encoded.bytes, blocks);
      EXPECT_EQ(whole, density < 0.1 || (density < 1 && type == DataType::kFloat64) ? 0 : blocks)
          << find_data_type(static_cast<int>(type))->name << " density " << density;
      for (const Verify verify : {Verify::kOff, Verify::kTouched, Verify::kFull}) {
        State held = base;
        const Status status = decode(encoded.bytes, held, verify);
        ASSERT_TRUE(status.ok()) << status.message();
        EXPECT_TRUE(held.arrays == target.arrays);
      }
    }
  }
}

// A block may travel whole, but with nothing of what the caller has not named: the sender's own
// base would not have it.
TEST(TimeCost, WholeBlocksHoldNoChangeThatIsNotNamed) {
  const State base =
      random_state({{DataType::kBfloat16, 40'000}, {DataType::kBfloat16, 20'000}}, 1);
  const State target = changed_state(base, 0.5, Change::kUlp, 2);
  std::vector<std::uint64_t> indices;
  State named = base;
  for (std::uint64_t i = 0; i < base.specs[0].count; i += 1) {
    if (i % 8 == 7) continue;
    indices.push_back(i);
    std::copy_n(target.arrays[0].begin() + static_cast<std::ptrdiff_t>(2 * i), 2,
                named.arrays[0].begin() + static_cast<std::ptrdiff_t>(2 * i));
  }
  ChangedHint listed;
  listed.indices = indices;
  const ChangedHint nothing;
  const std::vector<const ChangedHint*> hints{&listed, &nothing};
  for (const LinkTime& link : {LinkTime(), kSharedMemory}) {
    EncodeOptions options;
    options.hints = hints;
    options.link = link;
    State brought = base;
    const auto forward = brought.write();
    options.bring_forward = forward;
    const BlockMap map = target.map();
    const auto target_arrays = target.read();
    const auto base_arrays = brought.read();
    VectorSink sink;
    UpdateEncoder encoder(map, base_arrays, target_arrays, options, kernels::cpu_kernels());
    while (!encoder.finished()) ASSERT_TRUE(encoder.step(1, sink).ok());
    encoder.keep_forward();
    std::size_t blocks = 0;
    const std::size_t whole = whole_blocks(sink.bytes(), blocks);
    EXPECT_EQ(whole, link.ps_per_byte == 0 ? 0 : blocks);
    State held = base;
    ASSERT_TRUE(decode(sink.bytes(), held, Verify::kTouched).ok());
    EXPECT_TRUE(held.arrays == named.arrays) << link.ps_per_byte;
    EXPECT_TRUE(brought.arrays == named.arrays) << link.ps_per_byte;
  }
}

TEST(TimeCost, ListsMoreWhereTheLinkIsSlower) {
  std::size_t min_count = 0;
  for (const LinkTime& link : {kFastLink, kUsualLink, kSlowLink}) {
    const BlockShape shape{DataType::kBfloat16, kBlockElements};
    std::size_t count = 1;
    while (count < kBlockElements && !whole_is_faster(shape, count, 65'535, link)) ++count;
    EXPECT_GE(count, min_count) << link.ps_per_byte;
    min_count = count;
  }
  EXPECT_EQ(min_count, kBlockElements) << "at 1 Gbit/s no list takes longer than its block";
  EXPECT_TRUE(whole_is_faster({DataType::kBfloat16, kBlockElements}, kBlockElements / 2, 65'535,
                              kFastLink));
  EXPECT_FALSE(whole_is_faster({DataType::kBfloat16, kBlockElements}, kBlockElements / 2, 65'535,
                               kUsualLink));
}

TEST(TimeCost, ChangesNothingForFiles) {
  const State base = random_state({{DataType::kBfloat16, 100'000}}, 3);
  const State target = changed_state(base, 0.5, Change::kUlp, 4);
  std::size_t blocks = 0;
  EXPECT_EQ(whole_blocks(encode(base, target).bytes, blocks), 0u);
}

class FirstOnes : public ChangeRule {
 public:
  explicit FirstOnes(std::size_t count) : count_(count) {}
  std::size_t keep(const FoundChanges& changes) const override {
    return std::min(count_, changes.count);
  }

 private:
  std::size_t count_;
};

// A block that travels whole brings nothing that the rule leaves out.
TEST(TimeCost, SendsWhatTheRuleLeaves) {
  const State base = random_state({{DataType::kInt8, kBlockElements}}, 5);
  State target = base;
  for (std::byte& element : target.arrays[0]) element ^= std::byte{1};
  for (const std::size_t kept : {std::size_t{7'000}, std::size_t{40'000}}) {
    const FirstOnes rule(kept);
    EncodeOptions options;
    options.rule = &rule;
    options.link = {1, true};
    const Encoded encoded = encode(base, target, options);
    ASSERT_TRUE(encoded.status.ok()) << encoded.status.message();
    State held = base;
    ASSERT_TRUE(decode(encoded.bytes, held, Verify::kTouched).ok());
    for (std::size_t i = 0; i < kBlockElements; ++i) {
      ASSERT_EQ(held.arrays[0][i], i < kept ? target.arrays[0][i] : base.arrays[0][i])
          << i << " of " << kept;
    }
  }
}

}  // namespace
}  // namespace sparcl::codec
