// Early writing: the same result as staged where all is well, and no trace of it where anything is
// not.
#include <gtest/gtest.h>

#include <random>

#include "tests/codec/codec_support.hpp"
#include "tests/codec/stream_surgery.hpp"
#include "tests/support/tier.hpp"

namespace sparcl::codec {
namespace {

constexpr Hash128 kEarlySchema{5, 6};

const std::vector<ArraySpec> kEarlySpecs{
    {DataType::kBfloat16, 150'000}, {DataType::kBfloat16, 77},  {DataType::kBfloat16, 1},
    {DataType::kFloat32, 70'000},   {DataType::kInt8, 66'000},  {DataType::kUint8, 0},
    {DataType::kFloat64, 3'001},    {DataType::kFloat16, 9'999}};

std::vector<std::byte> encode_update(const State& base, const State& target) {
  const BlockMap map = base.map();
  EncodeOptions options;
  options.schema_hash = kEarlySchema;
  const auto from = base.read(), to = target.read();
  UpdateEncoder encoder(map, from, to, options, kernels::cpu_kernels());
  VectorSink sink;
  while (!encoder.finished()) EXPECT_TRUE(encoder.step(kBlockElements, sink).ok());
  return sink.bytes();
}

// Feeds the stream in pieces, as a network would. `commit`: apply where all checks pass.
Status receive(const std::vector<std::byte>& bytes, State& held, Verify verify, bool commit,
               std::size_t piece = 4096) {
  const BlockMap map = held.map();
  const auto arrays = held.write();
  const Staging staging = staged(bytes);
  UpdateDecoder decoder(map, arrays, verify, kEarlySchema, kernels::cpu_kernels(), Writing::kEarly);
  for (std::size_t available = 0; available < bytes.size();) {
    available = std::min(available + piece, bytes.size());
    for (bool more = true; more;)
      SPARCL_RETURN_IF_ERROR(decoder.advance(staging, available, 1, more));
  }
  SPARCL_RETURN_IF_ERROR(decoder.finish(bytes.size()));
  return commit ? decoder.apply(staging) : Status();
}

class EarlyWriting : public ::testing::TestWithParam<double> {};

TEST_P(EarlyWriting, GivesTheTarget) {
  const State base = random_state(kEarlySpecs, 1);
  for (const Change change : {Change::kUlp, Change::kRandom}) {
    const State target = changed_state(base, GetParam(), change, 2);
    for (const Verify verify : {Verify::kOff, Verify::kTouched}) {
      State held = base;
      const Status status = receive(encode_update(base, target), held, verify, true);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(held.arrays, target.arrays);
    }
  }
}

TEST_P(EarlyWriting, WithoutApplyLeavesNoTrace) {
  const State base = random_state(kEarlySpecs, 3);
  const State target = changed_state(base, GetParam(), Change::kUlp, 4);
  for (const Verify verify : {Verify::kOff, Verify::kTouched}) {
    State held = base;
    EXPECT_TRUE(receive(encode_update(base, target), held, verify, false).ok());
    EXPECT_EQ(held.arrays, base.arrays);
  }
}

TEST_P(EarlyWriting, AnyCutStreamLeavesNoTrace) {
  const State base = random_state(kEarlySpecs, 5);
  std::vector<std::byte> bytes =
      encode_update(base, changed_state(base, GetParam(), Change::kUlp, 6));
  std::mt19937_64 random(7);
  for (int i = 0; i < 20; ++i) {
    const std::vector<std::byte> cut(
        bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(random() % bytes.size()));
    State held = base;
    EXPECT_EQ(receive(cut, held, Verify::kTouched, true).code(), Code::kCorrupt);
    EXPECT_EQ(held.arrays, base.arrays);
  }
}

INSTANTIATE_TEST_SUITE_P(Densities, EarlyWriting, ::testing::Values(0.0, 0.0001, 0.01, 0.3, 1.0));

TEST(EarlyWriting, WritesWhileTheStreamArrives) {
  const State base =
      random_state({{DataType::kBfloat16, 2'000'000}}, 8);  // several groups of blocks
  const State target = changed_state(base, 0.01, Change::kUlp, 9);
  const std::vector<std::byte> bytes = encode_update(base, target);
  State held = base;
  const BlockMap map = held.map();
  const auto arrays = held.write();
  const Staging staging = staged(bytes);
  {
    UpdateDecoder decoder(map, arrays, Verify::kTouched, kEarlySchema, kernels::cpu_kernels(),
                          Writing::kEarly);
    bool more = true;
    while (more) ASSERT_TRUE(decoder.advance(staging, bytes.size() / 2, 1000, more).ok());
    EXPECT_NE(held.arrays, base.arrays);
  }
  EXPECT_EQ(held.arrays, base.arrays);
}

TEST(EarlyWriting, AnErrorTakesAllBackAtOnce) {
  const State base = random_state({{DataType::kBfloat16, 500'000}}, 8);
  RawStream stream = take_apart(encode_update(base, changed_state(base, 0.01, Change::kUlp, 9)));
  stream.content(kTagChunkEnd)[8] ^= std::byte{1};  // the digest of the new values
  const Bytes bytes = put_together(stream);
  State held = base;
  const BlockMap map = held.map();
  const auto arrays = held.write();
  UpdateDecoder decoder(map, arrays, Verify::kTouched, kEarlySchema, kernels::cpu_kernels(),
                        Writing::kEarly);
  EXPECT_EQ(check_stream(decoder, staged(bytes), bytes.size()).code(), Code::kCorrupt);
  EXPECT_EQ(held.arrays, base.arrays) << "while the decoder lives";
}

TEST(EarlyWriting, AWrongBaseAnywhereIsRefusedAndLeftAsItWas) {
  const State base = random_state(kEarlySpecs, 10);
  const State target = changed_state(base, 0.05, Change::kUlp, 11);
  const std::vector<std::byte> bytes = encode_update(base, target);
  std::mt19937_64 random(12);
  int refused = 0;
  for (int i = 0; i < 50; ++i) {
    State held = base;
    const std::size_t array = random() % held.arrays.size();
    if (held.arrays[array].empty()) continue;
    const std::size_t at = random() % held.arrays[array].size();
    held.arrays[array][at] ^= std::byte{1};
    const State before = held;
    const Status status = receive(bytes, held, Verify::kTouched, true);
    if (status.ok()) continue;  // an element that the update does not touch
    ++refused;
    EXPECT_EQ(status.code(), Code::kWrongBase);
    EXPECT_EQ(held.arrays, before.arrays);
  }
  EXPECT_GT(refused, 0);
}

TEST(EarlyWriting, ARankAtTheTargetStaysThere) {
  const State base = random_state(kEarlySpecs, 13);
  const State target = changed_state(base, 0.05, Change::kUlp, 14);
  State held = target;
  EXPECT_TRUE(receive(encode_update(base, target), held, Verify::kTouched, true).ok());
  EXPECT_EQ(held.arrays, target.arrays);
}

// Even with its checksums mended, a damaged stream is refused, or does exactly what it says; what
// was held is there unless it was applied.
TEST(EarlyWriting, DamagedStreamsLeaveNoTraceUnlessApplied) {
  const State base = random_state(kEarlySpecs, 15);
  const State target = changed_state(base, 0.02, Change::kUlp, 16);
  const std::vector<std::byte> bytes = encode_update(base, target);
  std::mt19937_64 random(17);
  for (int i = 0; i < test::by_tier(400, 20'000); ++i) {
    std::vector<std::byte> damaged = bytes;
    damaged[random() % damaged.size()] ^= static_cast<std::byte>(1 + random() % 255);
    if (i % 2 == 0) {
      RawStream stream = take_apart(bytes);
      Bytes& content = stream.sections[random() % stream.sections.size()].content;
      content[random() % content.size()] ^= static_cast<std::byte>(1 + random() % 255);
      damaged = put_together(stream);
    }
    State held = base;
    const Status status = receive(damaged, held, Verify::kTouched, true, 1 << 16);
    EXPECT_TRUE(status.ok() || held.arrays == base.arrays)
        << "mutation " << i << ": " << status.message();
    EXPECT_FALSE(status.ok() && i % 2 == 1) << "mutation " << i << " was accepted";
  }
}

}  // namespace
}  // namespace sparcl::codec
