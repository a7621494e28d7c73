// Writing over memory whose values do not matter: whole states in one pass, and nothing else.
#include <gtest/gtest.h>

#include <algorithm>

#include "src/base/worker_pool.hpp"
#include "src/codec/block_mode.hpp"
#include "tests/codec/codec_support.hpp"
#include "tests/codec/stream_surgery.hpp"

namespace sparcl::codec {
namespace {

const std::vector<ArraySpec> kOverSpecs{{DataType::kBfloat16, 300001}, {DataType::kBfloat16, 7},
                                        {DataType::kUint8, 0},         {DataType::kFloat32, 70000},
                                        {DataType::kInt8, 66001},      {DataType::kFloat64, 3}};

struct OverOutcome {
  Status status;
  bool is_written_before_apply = false;
};

OverOutcome write_over(const std::vector<std::byte>& bytes, State& into, const State& target,
                       const kernels::KernelSet& kernels = kernels::cpu_kernels(),
                       WorkerPool* pool = nullptr) {
  const BlockMap map = into.map();
  const auto arrays = into.write();
  const Staging& staging = staged(bytes);
  UpdateDecoder decoder(map, arrays, Verify::kFull, {}, kernels, Writing::kOver);
  if (pool != nullptr) decoder.set_workers(*pool);
  OverOutcome outcome{check_stream(decoder, staging, bytes.size())};
  if (!outcome.status.ok()) return outcome;
  outcome.is_written_before_apply = into.arrays == target.arrays;
  EXPECT_EQ(decoder.used_bytes(), bytes.size());
  EXPECT_TRUE(decoder.writes_all());
  EXPECT_FALSE(decoder.already_applied());
  outcome.status = decoder.apply(staging);
  return outcome;
}

// Without a base: all is sent whole.
Encoded encode_whole(const State& target, EncodeOptions options) {
  const BlockMap map = target.map();
  const std::vector<const std::byte*> none(target.arrays.size(), nullptr);
  const auto arrays = target.read();
  UpdateEncoder encoder(map, none, arrays, options, kernels::cpu_kernels());
  VectorSink sink;
  Encoded encoded;
  while (encoded.status.ok() && !encoder.finished()) encoded.status = encoder.step(1 << 20, sink);
  encoded.bytes = sink.bytes();
  return encoded;
}

State weights_like(std::uint64_t seed) {  // exponents that can be packed
  State state = random_state(kOverSpecs, seed);
  for (std::size_t i = 1; i < state.arrays[0].size(); i += 2) state.arrays[0][i] &= std::byte{0x83};
  return state;
}

TEST(OverWriting, ItGivesTheTargetWhateverWasThere) {
  const State target = weights_like(1);
  WorkerPool pool(3);
  for (const bool fewest : {false, true}) {
    EncodeOptions options = with_hash();
    options.fewest_bytes = fewest;
    const Encoded encoded = encode_whole(target, options);
    ASSERT_TRUE(encoded.status.ok());
    for (const kernels::KernelSet* set : kernel_sets()) {
      for (WorkerPool* const workers : {static_cast<WorkerPool*>(nullptr), &pool}) {
        State into = random_state(kOverSpecs, 2);
        const OverOutcome outcome = write_over(encoded.bytes, into, target, *set, workers);
        ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
        EXPECT_TRUE(outcome.is_written_before_apply);
        EXPECT_EQ(into.arrays, target.arrays);
      }
    }
    State into = target;  // that it is there already is not seen
    EXPECT_TRUE(write_over(encoded.bytes, into, target).status.ok());
  }
}

TEST(OverWriting, AnUpdateThatNeedsABaseIsRefused) {
  const State base = random_state(kOverSpecs, 3);
  const State target = changed_state(base, 0.01, Change::kUlp, 4);
  State into = base;
  Status status = write_over(encode(base, target, with_hash()).bytes, into, target).status;
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_NE(status.message().find("no base is held"), std::string::npos) << status.message();

  // Some arrays have a base that does not change: they are not in the stream.
  const BlockMap map = base.map();
  auto from = base.read();
  const auto to = base.read();
  from[0] = nullptr;
  UpdateEncoder encoder(map, from, to, with_hash(), kernels::cpu_kernels());
  VectorSink sink;
  while (!encoder.finished()) ASSERT_TRUE(encoder.step(1 << 20, sink).ok());
  status = write_over(sink.bytes(), into, base).status;
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_NE(status.message().find("it writes 300008 of"), std::string::npos) << status.message();
}

TEST(OverWriting, ADamagedStreamIsRefused) {
  const State target = weights_like(5);
  EncodeOptions options = with_hash();
  options.fewest_bytes = true;
  const Encoded encoded = encode_whole(target, options);
  for (std::size_t at = 60; at < encoded.bytes.size(); at += encoded.bytes.size() / 50) {
    std::vector<std::byte> damaged = encoded.bytes;
    damaged[at] ^= std::byte{4};
    State into = random_state(kOverSpecs, 6);
    EXPECT_FALSE(write_over(damaged, into, target).status.ok()) << at;
    damaged.resize(at);
    EXPECT_EQ(write_over(damaged, into, target).status.code(), Code::kCorrupt) << at;
  }
  // With its checksums mended, only the state's hash tells.
  RawStream stream = take_apart(encode_whole(target, with_hash()).bytes);
  const auto block = std::ranges::find_if(
      stream.sections, [](const RawSection& section) { return is_block(section.tag); });
  block->content.back() ^= std::byte{1};
  State into = random_state(kOverSpecs, 7);
  const Status status = write_over(put_together(stream), into, target).status;
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_NE(status.message().find("leads to a state with hash"), std::string::npos)
      << status.message();
}

}  // namespace
}  // namespace sparcl::codec
