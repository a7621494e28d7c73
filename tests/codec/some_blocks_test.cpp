// An update of some blocks, for one whose memory was damaged in them: they travel whole, and the
// state hashes say whether that is enough.

#include <gtest/gtest.h>

#include "src/base/worker_pool.hpp"
#include "src/codec/state_hash.hpp"
#include "tests/codec/both_decoders.hpp"

namespace sparcl::codec {
namespace {

const std::vector<ArraySpec> kSpecs{{DataType::kBfloat16, 300001}, {DataType::kBfloat16, 7},
                                    {DataType::kUint8, 0},         {DataType::kBfloat16, 65536},
                                    {DataType::kFloat32, 90000},   {DataType::kInt8, 200}};
constexpr Hash128 kSchema{3, 4};

struct UpdateOfSomeBlocks : testing::Test {
  State target = random_state(kSpecs, 1);
  State damaged = target;
  const BlockMap map = target.map();
  WorkerPool* workers = nullptr;

  Hash128 hash_of(const State& state) const { return state_hash(map, state.read(), kSchema); }
  void damage(std::size_t array, std::size_t byte) {
    damaged.arrays[array][byte] ^= std::byte{0x40};
  }
  std::vector<std::uint64_t> differing() const {
    std::vector<Hash128> here, there;
    add_block_hashes(map, {target.read()}, 0, map.block_count(), kernels::cpu_kernels(), here);
    add_block_hashes(map, {damaged.read()}, 0, map.block_count(), kernels::cpu_kernels(), there);
    std::vector<std::uint64_t> blocks((map.block_count() + 63) / 64, 0);
    for (std::size_t i = 0; i < here.size(); ++i)
      blocks[i / 64] |= std::uint64_t{here[i] != there[i]} << (i % 64);
    return blocks;
  }
  Encoded encode_blocks(const std::vector<std::uint64_t>& blocks,
                        EncodeOptions options = {}) const {
    options.base_version = 0;
    options.target_version = 9;
    options.schema_hash = kSchema;
    options.with_state_hash = true;
    options.base_hash = hash_of(damaged);
    options.target_hash = hash_of(target);
    options.only_blocks = blocks;
    options.workers = workers;
    const std::vector<const std::byte*> none(kSpecs.size(), nullptr);
    UpdateEncoder encoder(map, none, target.read(), options, kernels::cpu_kernels());
    VectorSink sink;
    Encoded encoded;
    while (encoded.status.ok() && !encoder.finished()) encoded.status = encoder.step(65536, sink);
    encoded.stats = encoder.stats();
    encoded.bytes = sink.bytes();
    return encoded;
  }
  // As a replica checks it that knows what it holds.
  Status check(const Encoded& encoded, State& held, Verify verify, bool apply = true) const {
    const auto arrays = held.write();
    const Staging& staging = staged(encoded.bytes);
    UpdateDecoder decoder(map, arrays, verify, kSchema, kernels::cpu_kernels());
    decoder.track(hash_of(held));
    SPARCL_RETURN_IF_ERROR(check_stream(decoder, staging, encoded.bytes.size()));
    EXPECT_EQ(decoder.target_hash(), hash_of(target));
    return apply ? decoder.apply(staging) : Status();
  }
};

TEST_F(UpdateOfSomeBlocks, MakesGoodWhatWasDamaged) {
  damage(0, 131072);      // the second block
  damage(0, 2 * 300000);  // one of two arrays
  damage(4, 359999);      // another run's last
  const Encoded encoded = encode_blocks(differing());
  ASSERT_TRUE(encoded.status.ok()) << encoded.status.message();
  EXPECT_EQ(encoded.stats.changed, 2U * 65536 + 90000 - 65536);
  EXPECT_LT(encoded.bytes.size(), (2 * 131072 + 4 * 24464) * 1.01);
  for (const Verify verify : {Verify::kTouched, Verify::kFull}) {
    State held = damaged;
    const Status status = check(encoded, held, verify);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(held.arrays == target.arrays);
  }
}

TEST_F(UpdateOfSomeBlocks, IsTheSameByThreadsAndForTheOracle) {
  damage(0, 5);
  damage(3, 131071);
  const Encoded alone = encode_blocks(differing());
  WorkerPool pool(3);
  workers = &pool;
  EXPECT_TRUE(encode_blocks(differing()).bytes == alone.bytes);
  for (const Verify verify : {Verify::kTouched, Verify::kFull}) {
    const oracle::UpdateOutcome outcome = run_oracle(alone.bytes, damaged, kSchema, verify);
    EXPECT_EQ(code_of(outcome.finding), Code::kSuccess);
  }
}

TEST_F(UpdateOfSomeBlocks, AnyOtherBaseIsRefusedBeforeAnyWrite) {
  damage(0, 5);
  const Encoded encoded = encode_blocks(differing());
  State twice = damaged;
  twice.arrays[0][131072 * 3] ^= std::byte{1};  // in a block that does not travel
  State elsewhere = target;
  elsewhere.arrays[0][7] ^= std::byte{1};  // in the one that does, but otherwise
  for (const State& base : {twice, elsewhere}) {
    State held = base;
    EXPECT_EQ(check(encoded, held, Verify::kFull).code(), Code::kWrongBase);
    EXPECT_TRUE(held.arrays == base.arrays);
  }
}

// It says that the others stay, and they must not.
TEST_F(UpdateOfSomeBlocks, TooFewBlocksAreCorrupt) {
  damage(0, 5);
  damage(0, 131072 * 3);
  std::vector<std::uint64_t> blocks = differing();
  blocks[0] &= ~std::uint64_t{1};
  const Encoded encoded = encode_blocks(blocks);
  ASSERT_TRUE(encoded.status.ok());
  for (const Verify verify : {Verify::kTouched, Verify::kFull}) {
    State held = damaged;
    EXPECT_EQ(check(encoded, held, verify).code(), Code::kCorrupt);
    EXPECT_TRUE(held.arrays == damaged.arrays);
  }
}

TEST_F(UpdateOfSomeBlocks, MayBeOfAllAndOfNone) {
  damaged = random_state(kSpecs, 2);
  State held = damaged;
  EXPECT_TRUE(check(encode_blocks({~std::uint64_t{0}}), held, Verify::kFull).ok());
  EXPECT_TRUE(held.arrays == target.arrays);
  damaged = target;
  const Encoded none = encode_blocks({0});
  EXPECT_EQ(none.stats.changed, 0U);
  EXPECT_TRUE(check(none, held, Verify::kFull).ok());
  EXPECT_TRUE(held.arrays == target.arrays);
}

TEST_F(UpdateOfSomeBlocks, ArraysThatAreMadeAreReadInTheseBlocksOnly) {
  struct Source final : ArraySource {
    explicit Source(const State& all) : state(all) {}
    void read(std::uint32_t array, std::uint64_t first, std::uint64_t count,
              std::byte* out) const override {
      const std::size_t width = element_bytes(state.specs[array].datatype);
      std::memcpy(out, state.arrays[array].data() + first * width, count * width);
      elements += count;
    }
    const State& state;
    mutable std::uint64_t elements = 0;
  };
  damage(0, 131072);
  const Encoded expected = encode_blocks(differing());
  const Source source(target);
  const std::vector<std::uint64_t> blocks = differing();
  EncodeOptions options;
  options.target_source = &source;
  options.target_version = 9;
  options.schema_hash = kSchema;
  options.with_state_hash = true;
  options.base_hash = hash_of(damaged);
  options.target_hash = hash_of(target);
  options.only_blocks = blocks;
  const std::vector<const std::byte*> none(kSpecs.size(), nullptr);
  UpdateEncoder encoder(map, none, none, options, kernels::cpu_kernels());
  VectorSink sink;
  while (!encoder.finished()) ASSERT_TRUE(encoder.step(65536, sink).ok());
  EXPECT_TRUE(sink.bytes() == expected.bytes);
  EXPECT_EQ(source.elements, 65536U);
}

TEST_F(UpdateOfSomeBlocks, WhatItCannotBeMadeOfIsSaid) {
  EncodeOptions options;
  options.with_state_hash = true;
  options.base_hash = options.target_hash = Hash128{1, 2};
  const std::vector<std::uint64_t> blocks{1};
  options.only_blocks = blocks;
  EXPECT_EQ(encode(damaged, target, options).status.code(), Code::kInvalidArgument);  // with a base
  const State many = random_state({{DataType::kUint8, 65 * 65536}}, 1);
  VectorSink sink;
  for (const bool has_hash : {true, false}) {
    if (!has_hash) options.target_hash.reset();
    const State& state = has_hash ? many : target;
    const std::vector<const std::byte*> no_base(state.arrays.size(), nullptr);
    const BlockMap state_map = state.map();
    UpdateEncoder encoder(state_map, no_base, state.read(), options, kernels::cpu_kernels());
    EXPECT_EQ(encoder.step(1, sink).code(), Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace sparcl::codec
