// Several workers give the same bytes as one, check and apply alike, and fail alike.

#include <gtest/gtest.h>

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include "src/base/worker_pool.hpp"
#include "src/codec/block_mode.hpp"
#include "src/codec/change_rule.hpp"
#include "tests/codec/codec_support.hpp"

namespace sparcl::codec {
namespace {

struct WorkersOutcome {
  Status status;
  bool already_applied = false;
};

WorkersOutcome decode_with(WorkerPool* pool, const Encoded& encoded, State& held, Verify verify,
                           Writing writing, const Hash128& schema = {}) {
  const BlockMap map = held.map();
  const auto arrays = held.write();
  const Staging& staging = staged(encoded.bytes);
  UpdateDecoder decoder(map, arrays, verify, schema, kernels::cpu_kernels(), writing);
  if (pool != nullptr) decoder.set_workers(*pool);
  WorkersOutcome outcome{check_stream(decoder, staging, encoded.bytes.size(), 1 << 20, 64)};
  outcome.already_applied = decoder.already_applied();
  if (outcome.status.ok()) outcome.status = decoder.apply(staging);
  return outcome;
}

// Runs of several types, one of them of two regions, and small ones.
struct Workers : testing::Test {
  static constexpr std::uint64_t kRegion = std::uint64_t{16} << 20;

  static const State& base() {
    static const State state = random_state({{DataType::kUint8, kRegion + 70001},
                                             {DataType::kBfloat16, 700003},
                                             {DataType::kBfloat16, 300001},
                                             {DataType::kFloat32, 5},
                                             {DataType::kFloat64, 70000}},
                                            1);
    return state;
  }
  static const State& target() {
    static const State state = changed_state(base(), 0.002, Change::kUlp, 2);
    return state;
  }
  static Encoded encode_with(WorkerPool* pool, EncodeOptions options) {
    options.with_state_hash = true;
    options.workers = pool;
    return encode(base(), target(), options);
  }
};

TEST_F(Workers, GiveTheSameBytes) {
  for (const BlockMode* mode : {static_cast<const BlockMode*>(nullptr), &kFlatMode, &kClassesMode,
                                &kFlatGroupMode, &kBlockSparseMode, &kDenseMode}) {
    EncodeOptions options;
    options.mode = mode;
    options.allow_classes = mode == nullptr;
    const Encoded alone = encode_with(nullptr, options);
    ASSERT_TRUE(alone.status.ok());
    for (const unsigned threads : {1u, 2u, 3u, 7u}) {
      WorkerPool pool(threads);
      const Encoded together = encode_with(&pool, options);
      ASSERT_TRUE(together.bytes == alone.bytes)
          << threads << " threads, mode " << (mode != nullptr ? mode->name : "any");
      EXPECT_EQ(together.stats.changed, alone.stats.changed);
      EXPECT_EQ(together.stats.target_hash, alone.stats.target_hash);
    }
  }
}

TEST_F(Workers, CheckAndApplyAlike) {
  WorkerPool pool(3);
  for (const BlockMode* mode : {static_cast<const BlockMode*>(nullptr), &kClassesMode}) {
    EncodeOptions options;
    options.mode = mode;
    const Encoded encoded = encode_with(nullptr, options);
    for (const Verify verify : {Verify::kOff, Verify::kTouched, Verify::kFull}) {
      for (const Writing writing : {Writing::kStaged, Writing::kEarly}) {
        State held = base();
        ASSERT_TRUE(decode_with(&pool, encoded, held, verify, writing).status.ok());
        ASSERT_TRUE(held.arrays == target().arrays);
        if (verify == Verify::kOff) continue;
        const WorkersOutcome again = decode_with(&pool, encoded, held, verify, writing);
        ASSERT_TRUE(again.status.ok()) << again.status.message();
        EXPECT_TRUE(again.already_applied);
        ASSERT_TRUE(held.arrays == target().arrays);
      }
    }
  }
}

TEST_F(Workers, RefuseAlikeAndLeaveAllAsItWas) {
  WorkerPool pool(3);
  const Encoded encoded = encode_with(nullptr, {});
  std::mt19937_64 random(3);
  for (int round = 0; round < 8; ++round) {
    Encoded bad = encoded;
    State held = base();
    if (round % 2 == 0) {
      bad.bytes[random() % bad.bytes.size()] ^= std::byte{1};
    } else {  // another base: elements that change are already something else
      const State other = changed_state(target(), 0.0001, Change::kRandom, random());
      held = other;
    }
    const State before = held;
    const Writing writing = round % 4 < 2 ? Writing::kEarly : Writing::kStaged;
    const WorkersOutcome alone = decode_with(nullptr, bad, held, Verify::kTouched, writing);
    ASSERT_TRUE(held.arrays == before.arrays);
    const WorkersOutcome together = decode_with(&pool, bad, held, Verify::kTouched, writing);
    ASSERT_TRUE(held.arrays == before.arrays);
    EXPECT_FALSE(alone.status.ok());
    EXPECT_EQ(together.status.code(), alone.status.code())
        << together.status.message() << " / " << alone.status.message();
  }
}

TEST_F(Workers, HintsAreWalkedThroughByOne) {
  std::vector<std::uint64_t> indices;
  for (std::uint64_t i = 0; i < base().specs[0].count; ++i) {
    if (base().arrays[0][i] != target().arrays[0][i]) indices.push_back(i);
  }
  ChangedHint hint;
  hint.indices = indices;
  const std::vector<const ChangedHint*> hints{&hint, nullptr, nullptr, nullptr, nullptr};
  EncodeOptions options;
  options.hints = hints;
  WorkerPool pool(3);
  EXPECT_TRUE(encode_with(&pool, options).bytes == encode_with(nullptr, {}).bytes);
}

#ifdef __SSE2__
TEST(WorkersFloats, AreComparedAlikeInEveryThread) {
  State zeros{{{DataType::kFloat32, (std::uint64_t{16} << 20) + 300'000}}, {}};
  zeros.arrays.emplace_back(4 * zeros.specs[0].count);
  State target = zeros;
  for (std::size_t i = 0; i < target.arrays[0].size(); i += 400)
    target.arrays[0][i] = std::byte{1};  // the least denormal
  const ThresholdRule rule(0);
  EncodeOptions options;
  options.rule = &rule;
  WorkerPool pool(3);  // its threads begin with the float environment of this one
  const unsigned saved = _mm_getcsr();
  _mm_setcsr(saved | 0x8040);  // denormals are zero
  const Encoded alone = encode(zeros, target, options);
  options.workers = &pool;
  const Encoded together = encode(zeros, target, options);
  _mm_setcsr(saved);
  EXPECT_EQ(alone.stats.changed, target.arrays[0].size() / 400 + 1);
  EXPECT_TRUE(together.bytes == alone.bytes);
}
#endif

TEST(WorkerPool, RunsEachOnceAndWaitsForAll) {
  WorkerPool pool(4);
  ASSERT_EQ(pool.size(), 4u);
  std::vector<int> calls(4);
  for (int round = 0; round < 2000; ++round) {
    pool.run(static_cast<unsigned>(round % 5), [&](unsigned i) { ++calls[i]; });
  }
  EXPECT_EQ(calls, (std::vector<int>{1600, 1200, 800, 400}));
  EXPECT_GE(WorkerPool(0).size(), 1u);
  EXPECT_EQ(allowed_cores(), WorkerPool(0).size());
}

}  // namespace
}  // namespace sparcl::codec
