// A decoder that keeps the changes which it has checked applies them as one that decodes them anew,
// and what it has replaced leads back.

#include <gtest/gtest.h>

#include <optional>

#include "src/base/worker_pool.hpp"
#include "src/codec/block_mode.hpp"
#include "src/codec/change_log.hpp"
#include "src/codec/state_hash.hpp"
#include "tests/codec/codec_support.hpp"

namespace sparcl::codec {
namespace {

constexpr std::uint64_t kPlenty = std::uint64_t{1} << 40;

const std::vector<ArraySpec> kKeptSpecs{{DataType::kBfloat16, 300001}, {DataType::kBfloat16, 7},
                                        {DataType::kUint8, 0},         {DataType::kBfloat16, 65536},
                                        {DataType::kFloat32, 70000},   {DataType::kInt8, 66001},
                                        {DataType::kFloat64, 3}};

struct KeptOutcome {
  Status status;
  std::optional<ChangeLog> replaced;
};

KeptOutcome apply_kept(const Encoded& encoded, State& held, std::uint64_t max_bytes,
                       WorkerPool* pool = nullptr, Verify verify = Verify::kTouched,
                       State* written = nullptr) {
  const BlockMap map = held.map();
  const auto arrays = held.write();
  const Staging& staging = staged(encoded.bytes);
  UpdateDecoder decoder(map, arrays, verify, {}, kernels::cpu_kernels());
  if (pool != nullptr) decoder.set_workers(*pool);
  decoder.keep_changes(max_bytes);
  KeptOutcome outcome{check_stream(decoder, staging, encoded.bytes.size()), {}};
  if (!outcome.status.ok()) return outcome;
  std::vector<std::byte*> other;
  if (written != nullptr) {
    other = written->write();
    decoder.write_to(other);
  }
  outcome.status = decoder.apply(staging);
  outcome.replaced = decoder.take_replaced();
  return outcome;
}

Hash128 hash_of(const State& state) { return state_hash(state.map(), state.read(), {}); }

// There and back again, by hashes and by bytes.
void expect_leads_back(ChangeLog& replaced, State& held, const State& base, const State& target) {
  const BlockMap map = held.map();
  const auto arrays = held.write();
  ChangeLog::Room room;
  replaced.make_room(map, room);
  EXPECT_EQ(hash_of(target) + replaced.exchange_and_hash(map, arrays, kernels::cpu_kernels(), room),
            hash_of(base));
  EXPECT_TRUE(held.arrays == base.arrays);
  replaced.exchange(map, arrays, kernels::cpu_kernels(), room);
  EXPECT_TRUE(held.arrays == target.arrays);
}

struct KeptChanges : testing::Test {
  const State base = random_state(kKeptSpecs, 1);

  Encoded encoded_to(const State& target, const BlockMode* mode = nullptr) const {
    EncodeOptions options;
    options.with_state_hash = true;
    options.mode = mode;
    options.allow_classes = mode == nullptr;
    return encode(base, target, options);
  }
};

TEST_F(KeptChanges, AreAppliedAndLeadBackInEveryMode) {
  const State target = changed_state(base, 0.01, Change::kUlp, 2);
  for (const BlockMode* mode :
       {static_cast<const BlockMode*>(nullptr), &kFlatMode, &kTwoLevelMode, &kClassesMode,
        &kFlatGroupMode, &kBlockSparseMode, &kDenseMode, &kCodedMode}) {
    const Encoded encoded = encoded_to(target, mode);
    ASSERT_TRUE(encoded.status.ok());
    for (const unsigned threads : {0u, 1u, 2u, 3u}) {
      SCOPED_TRACE(testing::Message()
                   << (mode != nullptr ? mode->name : "any mode") << ", " << threads << " threads");
      std::optional<WorkerPool> pool;
      if (threads > 0) pool.emplace(threads);
      State held = base;
      KeptOutcome outcome = apply_kept(encoded, held, kPlenty, pool ? &*pool : nullptr);
      ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
      EXPECT_TRUE(held.arrays == target.arrays);
      ASSERT_TRUE(outcome.replaced.has_value());
      expect_leads_back(*outcome.replaced, held, base, target);
    }
  }
}

TEST_F(KeptChanges, AreAppliedAtEveryDensity) {
  for (const double density : {0.0, 1e-6, 0.0005, 0.1, 0.6, 1.0}) {
    for (const Verify verify : {Verify::kTouched, Verify::kFull}) {
      SCOPED_TRACE(testing::Message()
                   << density << (verify == Verify::kFull ? ", full" : ", touched"));
      const State target = changed_state(base, density, Change::kRandom, 3);
      State held = base;
      KeptOutcome outcome = apply_kept(encoded_to(target), held, kPlenty, nullptr, verify);
      ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
      EXPECT_TRUE(held.arrays == target.arrays);
      ASSERT_TRUE(density == 0 || outcome.replaced.has_value());
      if (outcome.replaced) expect_leads_back(*outcome.replaced, held, base, target);
    }
  }
}

TEST_F(KeptChanges, AreDecodedAnewWhereTheyAreMoreThanAllowed) {
  const State target = changed_state(base, 0.05, Change::kUlp, 4);
  const Encoded encoded = encoded_to(target);
  WorkerPool pool(3);
  for (WorkerPool* each : {static_cast<WorkerPool*>(nullptr), &pool}) {
    State held = base;
    const KeptOutcome outcome = apply_kept(encoded, held, 10000, each);
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
    EXPECT_TRUE(held.arrays == target.arrays);
    EXPECT_FALSE(outcome.replaced.has_value());
  }
}

TEST_F(KeptChanges, AreNotWrittenWhereTheTargetIsHeld) {
  const State target = changed_state(base, 0.01, Change::kUlp, 5);
  State held = target;
  const KeptOutcome outcome = apply_kept(encoded_to(target), held, kPlenty);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
  EXPECT_TRUE(held.arrays == target.arrays);
  EXPECT_FALSE(outcome.replaced.has_value());
}

TEST_F(KeptChanges, GoToOtherArraysThatHoldTheSame) {
  const State target = changed_state(base, 0.01, Change::kUlp, 6);
  State held = base;
  State other = base;
  KeptOutcome outcome =
      apply_kept(encoded_to(target), held, kPlenty, nullptr, Verify::kTouched, &other);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
  EXPECT_TRUE(held.arrays == base.arrays);
  EXPECT_TRUE(other.arrays == target.arrays);
  ASSERT_TRUE(outcome.replaced.has_value());
  expect_leads_back(*outcome.replaced, other, base, target);
}

TEST_F(KeptChanges, OfARefusedUpdateAreNotWritten) {
  const State target = changed_state(base, 0.01, Change::kUlp, 7);
  const State wrong = changed_state(base, 0.01, Change::kUlp, 8);
  State held = wrong;
  const KeptOutcome outcome = apply_kept(encoded_to(target), held, kPlenty);
  EXPECT_EQ(outcome.status.code(), Code::kWrongBase) << outcome.status.message();
  EXPECT_TRUE(held.arrays == wrong.arrays);
}

}  // namespace
}  // namespace sparcl::codec
