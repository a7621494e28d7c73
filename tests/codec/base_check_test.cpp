#include "src/codec/base_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/codec/state_hash.hpp"
#include "tests/codec/codec_support.hpp"

namespace sparcl::codec {
namespace {

struct BaseChecks : testing::Test {
  State base = random_state({{DataType::kBfloat16, 400000}, {DataType::kInt32, 1000}}, 1);
  State target = changed_state(base, 0.01, Change::kUlp, 2);
  Encoded encoded = [this] {
    EncodeOptions options;
    options.with_state_hash = true;
    return encode(base, target, options);
  }();

  // What the decoder says of a state; checks that it has not written to it.
  Status verdict(State& held, Verify verify, bool* already_applied = nullptr) {
    const State before = held;
    const BlockMap map = held.map();
    const auto arrays = held.write();
    const Staging& staging = staged(encoded.bytes);
    UpdateDecoder decoder(map, arrays, verify, {}, kernels::cpu_kernels());
    Status status = check_stream(decoder, staging, encoded.bytes.size());
    EXPECT_TRUE(held.arrays == before.arrays) << "written before apply()";
    if (already_applied != nullptr) *already_applied = decoder.already_applied();
    return status;
  }

  static void damage(State& state, std::size_t element) {
    state.arrays[0][2 * element] ^= std::byte{4};
  }
  std::size_t changed_element(std::size_t from) const {
    while (std::memcmp(&base.arrays[0][2 * from], &target.arrays[0][2 * from], 2) == 0) ++from;
    return from;
  }
  std::size_t unchanged_element(std::size_t from) const {
    while (std::memcmp(&base.arrays[0][2 * from], &target.arrays[0][2 * from], 2) != 0) ++from;
    return from;
  }
};

TEST_F(BaseChecks, TheBaseIsApproved) {
  for (const Verify verify : {Verify::kOff, Verify::kTouched, Verify::kFull}) {
    State held = base;
    bool already_applied = true;
    EXPECT_TRUE(verdict(held, verify, &already_applied).ok());
    EXPECT_FALSE(already_applied);
  }
}

TEST_F(BaseChecks, TheTargetIsKnownAndLeftAlone) {
  for (const Verify verify : {Verify::kTouched, Verify::kFull}) {
    State held = target;
    bool already_applied = false;
    EXPECT_TRUE(verdict(held, verify, &already_applied).ok());
    EXPECT_TRUE(already_applied);
    EXPECT_TRUE(decode(encoded.bytes, held, verify).ok());
    EXPECT_TRUE(held.arrays == target.arrays) << "steps were added twice";
  }
}

TEST_F(BaseChecks, DamageAtAChangedElementIsAWrongBase) {
  for (const Verify verify : {Verify::kTouched, Verify::kFull}) {
    for (const std::size_t from : {0u, 200000u, 390000u}) {
      State held = base;
      damage(held, changed_element(from));
      EXPECT_EQ(verdict(held, verify).code(), Code::kWrongBase);
    }
  }
}

// Three tensors of which the middle one is damaged: with names, and without.
TEST_F(BaseChecks, TheTextNamesTheTensor) {
  base = random_state({{DataType::kBfloat16, 70000},
                       {DataType::kBfloat16, 0},
                       {DataType::kFloat32, 70000},
                       {DataType::kInt32, 100}},
                      5);
  target = changed_state(base, 0.5, Change::kUlp, 6);
  EncodeOptions options;
  options.with_state_hash = true;
  encoded = encode(base, target, options);
  State held = base;
  std::size_t element = 66000;  // in its second block
  while (std::memcmp(&base.arrays[2][4 * element], &target.arrays[2][4 * element], 4) == 0)
    ++element;
  held.arrays[2][4 * element] ^= std::byte{1};
  const BlockMap map = held.map();
  const auto arrays = held.write();
  for (const Verify verify : {Verify::kTouched, Verify::kFull}) {
    EXPECT_THAT(verdict(held, verify).message(), testing::EndsWith("(in block 3)"));
    for (const Writing writing : {Writing::kStaged, Writing::kEarly}) {
      UpdateDecoder decoder(map, arrays, verify, {}, kernels::cpu_kernels(), writing);
      decoder.set_array_name(
          [](std::uint32_t array) { return "'t" + std::to_string(array) + "'"; });
      const Status status = check_stream(decoder, staged(encoded.bytes), encoded.bytes.size());
      EXPECT_EQ(status.code(), Code::kWrongBase);
      EXPECT_THAT(status.message(), testing::EndsWith("(in block 3 of 't2')"));
    }
  }
}

// Few changes a block: several blocks share a check, which says no more than that it is one of
// them.
TEST_F(BaseChecks, TheTextNamesAllBlocksOfAGroup) {
  base = random_state({{DataType::kBfloat16, 10 * 65536}}, 7);
  target = changed_state(base, 0.0005, Change::kUlp, 8);
  EncodeOptions options;
  options.with_state_hash = true;
  encoded = encode(base, target, options);
  State held = base;
  damage(held, changed_element(0));
  for (const Verify verify : {Verify::kTouched, Verify::kFull}) {
    EXPECT_THAT(verdict(held, verify).message(), testing::EndsWith("(in blocks 0 to 9)"));
  }
}

TEST_F(BaseChecks, DamageElsewhereIsFoundByTheFullCheckAlone) {
  State held = base;
  damage(held, unchanged_element(123456));
  EXPECT_TRUE(verdict(held, Verify::kTouched).ok()) << "touched looks at nothing else";
  const Status status = verdict(held, Verify::kFull);
  EXPECT_EQ(status.code(), Code::kWrongBase);
  const auto map = base.map();
  EXPECT_THAT(status.message(), testing::HasSubstr(to_hex(state_hash(map, held.read(), {}))));
  EXPECT_THAT(status.message(), testing::HasSubstr(to_hex(state_hash(map, base.read(), {}))));
}

TEST_F(BaseChecks, AStateThatIsPartlyTheTargetIsAWrongBase) {
  State held = base;
  std::copy_n(target.arrays[0].begin(), held.arrays[0].size() / 2, held.arrays[0].begin());
  for (const Verify verify : {Verify::kTouched, Verify::kFull})
    EXPECT_EQ(verdict(held, verify).code(), Code::kWrongBase);
}

TEST_F(BaseChecks, ChunksThatDisagreeAreAWrongBase) {
  // Dense enough for several chunks, each of which is wholly base or wholly target.
  base = random_state({{DataType::kFloat64, 700000}}, 3);
  target = changed_state(base, 1, Change::kRandom, 4);
  encoded = encode(base, target);
  State held = base;
  std::copy_n(target.arrays[0].begin(), 8 * 65536 * 4, held.arrays[0].begin());
  const Status status = verdict(held, Verify::kTouched);
  EXPECT_EQ(status.code(), Code::kWrongBase);
  EXPECT_THAT(status.message(), testing::HasSubstr("partly"));
}

TEST_F(BaseChecks, AFullCheckNeedsAStateHash) {
  encoded = encode(base, target);
  State held = base;
  EXPECT_EQ(verdict(held, Verify::kFull).code(), Code::kUnsupported);
}

// What finish() says to a receiver that believes to hold `tracked`.
Status tracked_verdict(const Encoded& encoded, State& held, const Hash128& tracked,
                       bool* already_applied = nullptr) {
  const BlockMap map = held.map();
  const auto arrays = held.write();
  const Staging& staging = staged(encoded.bytes);
  UpdateDecoder decoder(map, arrays, Verify::kTouched, {}, kernels::cpu_kernels());
  decoder.track(tracked);
  Status status = check_stream(decoder, staging, encoded.bytes.size());
  if (already_applied != nullptr) *already_applied = decoder.already_applied();
  if (status.ok()) {
    EXPECT_EQ(decoder.target_hash(), encoded.stats.target_hash);
  }
  return status;
}

TEST_F(BaseChecks, ATrackedStateIsCheckedToLeadToTheTarget) {
  State held = base;
  EXPECT_TRUE(tracked_verdict(encoded, held, encoded.stats.base_hash).ok());
  EXPECT_TRUE(tracked_verdict(encoded, held, Hash128{1, 2}).ok()) << "of another history: left out";
  bool already_applied = false;
  EXPECT_TRUE(tracked_verdict(encoded, target, encoded.stats.target_hash, &already_applied).ok());
  EXPECT_TRUE(already_applied);

  EncodeOptions options;
  options.with_state_hash = true;
  options.base_hash = Hash128{7, 8};
  EXPECT_TRUE(tracked_verdict(encode(base, target, options), held, {7, 8}).ok());

  BaseCheck check(Verify::kTouched, {});
  check.track({7, 8});
  EXPECT_EQ(check.finish({Hash128{7, 8}, Hash128{7, 9}}).code(), Code::kCorrupt);
  EXPECT_TRUE(check.finish({Hash128{7, 8}, Hash128{7, 8}}).ok());
  EXPECT_TRUE(check.finish({Hash128{7, 7}, Hash128{7, 9}}).ok());
  EXPECT_TRUE(check.finish({std::nullopt, Hash128{7, 9}}).ok());
}

TEST_F(BaseChecks, AKnownBaseHashGivesTheSameBytes) {
  EncodeOptions options;
  options.with_state_hash = true;
  options.base_hash = state_hash(base.map(), base.read(), {});
  const Encoded known = encode(base, target, options);
  EXPECT_EQ(known.bytes, encoded.bytes);
  EXPECT_EQ(known.stats.target_hash, state_hash(target.map(), target.read(), {}));
}

TEST_F(BaseChecks, AnotherLayoutIsAMismatch) {
  State other = random_state({{DataType::kBfloat16, 400001}, {DataType::kInt32, 1000}}, 1);
  EXPECT_EQ(verdict(other, Verify::kTouched).code(), Code::kMismatch);
}

TEST_F(BaseChecks, ErrorsStay) {
  State held = base;
  damage(held, changed_element(0));
  const BlockMap map = held.map();
  const auto arrays = held.write();
  const Staging& staging = staged(encoded.bytes);
  UpdateDecoder decoder(map, arrays, Verify::kTouched, {}, kernels::cpu_kernels());
  ASSERT_FALSE(check_stream(decoder, staging, encoded.bytes.size()).ok());
  damage(held, changed_element(0));  // mended, but too late
  bool more = false;
  EXPECT_EQ(decoder.advance(staging, encoded.bytes.size(), 100, more).code(), Code::kWrongBase);
  EXPECT_EQ(decoder.finish(encoded.bytes.size()).code(), Code::kWrongBase);
  EXPECT_EQ(decoder.apply(staging).code(), Code::kInvalidUsage);
  EXPECT_TRUE(held.arrays == base.arrays);
}

TEST_F(BaseChecks, ApplyWaitsForFinish) {
  State held = base;
  const BlockMap map = held.map();
  const auto arrays = held.write();
  const Staging& staging = staged(encoded.bytes);
  UpdateDecoder decoder(map, arrays, Verify::kTouched, {}, kernels::cpu_kernels());
  EXPECT_EQ(decoder.apply(staging).code(), Code::kInvalidUsage);
  bool more = true;
  while (more) ASSERT_TRUE(decoder.advance(staging, encoded.bytes.size(), 100, more).ok());
  EXPECT_EQ(decoder.apply(staging).code(), Code::kInvalidUsage);
  EXPECT_TRUE(held.arrays == base.arrays);
  ASSERT_TRUE(decoder.finish(encoded.bytes.size()).ok());
  ASSERT_TRUE(decoder.apply(staging).ok());
  EXPECT_TRUE(held.arrays == target.arrays);
}

TEST(StateHash, IsTheSumOverBlocksAndTheSchema) {
  const State state = random_state(
      {{DataType::kBfloat16, 40000}, {DataType::kBfloat16, 40000}, {DataType::kInt8, 5}}, 5);
  Array run = state.arrays[0];
  run.insert(run.end(), state.arrays[1].begin(), state.arrays[1].end());
  const Hash128 schema{5, 6};
  const auto block = [](std::span<const std::byte> bytes, std::uint64_t index) {
    return placed(kernels::reference_kernels().hash_words(bytes.data(), bytes.size()), index);
  };
  const Hash128 expected = schema + block(std::span(run).first(131072), 0) +
                           block(std::span(run).subspan(131072), 1) + block(state.arrays[2], 2);
  EXPECT_EQ(state_hash(state.map(), state.read(), schema), expected);
}

}  // namespace
}  // namespace sparcl::codec
