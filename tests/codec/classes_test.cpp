// Mode classes: coded given the old values' exponents.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/codec/block_mode.hpp"
#include "src/codec/class_choice.hpp"
#include "tests/codec/codec_support.hpp"
#include "tests/codec/stream_surgery.hpp"
#include "tests/codec/weight_states.hpp"
#include "tests/support/tier.hpp"

namespace sparcl::codec {
namespace {

EncodeOptions with_classes(const BlockMode* mode = nullptr) {
  EncodeOptions options;
  options.with_state_hash = true;
  options.allow_classes = true;
  options.mode = mode;
  return options;
}

std::size_t count_sections(const std::vector<std::byte>& bytes, std::uint8_t tag) {
  std::size_t count = 0;
  for (const RawSection& section : take_apart(bytes).sections)
    count += (section.tag & ~0x20) == tag;
  return count;
}

constexpr std::uint8_t kTagClasses = kTagBlock + 4;

const std::vector<ArraySpec> kPieces{
    {DataType::kBfloat16, 150'001}, {DataType::kBfloat16, 77},    {DataType::kBfloat16, 0},
    {DataType::kBfloat16, 1},       {DataType::kFloat32, 1'000},  {DataType::kBfloat16, 262'144},
    {DataType::kBfloat16, 300'003}, {DataType::kInt16, 66'000},   {DataType::kFloat16, 9'999},
    {DataType::kBfloat16, 64},      {DataType::kFloat16, 131'073}};

void expect_round_trip(const State& base, const State& target, const EncodeOptions& options,
                       const std::string& what) {
  const Encoded encoded = encode(base, target, options);
  ASSERT_TRUE(encoded.status.ok()) << encoded.status.message();
  for (const Verify verify : {Verify::kOff, Verify::kTouched, Verify::kFull}) {
    for (const Writing writing : {Writing::kStaged, Writing::kEarly}) {
      State held = base;
      const BlockMap map = held.map();
      const auto arrays = held.write();
      const Staging& staging = staged(encoded.bytes);
      UpdateDecoder decoder(map, arrays, verify, {}, kernels::cpu_kernels(), writing);
      const Status status = check_stream(decoder, staging, encoded.bytes.size(), 7'777);
      ASSERT_TRUE(status.ok()) << what << ": " << status.message();
      ASSERT_EQ(decoder.changed(), encoded.stats.changed);
      ASSERT_FALSE(decoder.already_applied() && encoded.stats.changed > 0) << what;
      ASSERT_TRUE(decoder.apply(staging).ok());
      ASSERT_TRUE(held.arrays == target.arrays) << what;
    }
  }
}

TEST(Classes, ComeBackAtEveryDensityOfAnyBits) {
  const State base =
      random_state(kPieces, 1);  // all exponents, NaN, infinity, denormals, both zeros
  for (const double density : {0.0, 1e-5, 1e-4, 0.003, 0.01, 0.05, 0.3, 0.5, 0.97, 1.0}) {
    for (const Change change : {Change::kUlp, Change::kRandom}) {
      const State target = changed_state(base, density, change, 2);
      expect_round_trip(base, target, with_classes(&kClassesMode),
                        fmt::format("density {}", density));
      expect_round_trip(base, target, with_classes(),
                        fmt::format("density {}, the best mode", density));
    }
  }
}

TEST(Classes, ComeBackFromRealSteps) {
  const State base = normal_state(kPieces, 3);
  for (const float size : {1e-6f, 1e-5f, 1e-4f, 1e-2f}) {
    const State target = stepped_state(base, size, 4);
    expect_round_trip(base, target, with_classes(), fmt::format("steps of {}", size));
  }
}

TEST(Classes, AreTakenWhereTheyAreSmaller) {
  const State base = normal_state({{DataType::kBfloat16, 1'000'000}}, 5);
  const State target = stepped_state(base, 2e-6f, 6);
  EncodeOptions blocks;
  blocks.with_state_hash = true;
  const Encoded flat = encode(base, target, blocks);
  const Encoded classes = encode(base, target, with_classes());
  EXPECT_EQ(count_sections(flat.bytes, kTagClasses), 0u);
  EXPECT_EQ(count_sections(classes.bytes, kTagClasses), 4u);
  EXPECT_EQ(count_sections(classes.bytes, kTagClassTable), 1u);
  EXPECT_LT(static_cast<double>(classes.bytes.size()),
            0.8 * static_cast<double>(flat.bytes.size()));
  // Of changes that know no exponent the flat mode is as good, and never worse than what may be
  // chosen.
  const State any = changed_state(base, 0.01, Change::kUlp, 7);
  EXPECT_LE(encode(base, any, with_classes()).bytes.size(), encode(base, any, blocks).bytes.size());
}

TEST(Classes, NeedAStateHash) {
  const State base = normal_state({{DataType::kBfloat16, 300'000}}, 8);
  EncodeOptions options = with_classes(&kClassesMode);
  options.with_state_hash = false;
  EXPECT_EQ(count_sections(encode(base, stepped_state(base, 1e-5f, 9), options).bytes, kTagClasses),
            0u);
}

TEST(Classes, DoNotDependOnKernelsOrBudget) {
  const State base = normal_state(kPieces, 10);
  for (const float size : {3e-6f, 1e-4f}) {
    const State target = stepped_state(base, size, 11);
    const Encoded first = encode(base, target, with_classes(), kernels::reference_kernels(), 1);
    EXPECT_GT(count_sections(first.bytes, kTagClasses), 0u) << size;
    for (const kernels::KernelSet& set : kernels::all_cpu_kernels()) {
      EXPECT_TRUE(encode(base, target, with_classes(), set, 1 << 20).bytes == first.bytes)
          << set.name;
      State held = base;
      EXPECT_TRUE(decode(first.bytes, held, Verify::kFull, {}, set).ok()) << set.name;
      EXPECT_TRUE(held.arrays == target.arrays) << set.name;
    }
  }
}

struct Receiver {
  Verify verify;
  Writing writing;
};
constexpr Receiver kReceivers[] = {{Verify::kTouched, Writing::kStaged},
                                   {Verify::kTouched, Writing::kEarly},
                                   {Verify::kFull, Writing::kStaged}};

TEST(Classes, AnotherBaseIsRefusedAsThat) {
  const State base = normal_state(kPieces, 12);
  const State target = stepped_state(base, 5e-6f, 13);
  const Encoded encoded = encode(base, target, with_classes());
  ASSERT_GT(count_sections(encoded.bytes, kTagClasses), 0u);
  std::mt19937_64 random(14);
  for (int i = 0; i < test::by_tier(12, 200); ++i) {
    for (const Receiver& receiver : kReceivers) {
      // Each kind of other base: a random one, one exponent changed, zeros, the target with one
      // element changed.
      State held = i % 4 == 0   ? normal_state(kPieces, 100 + random() % 100)
                   : i % 4 == 3 ? target
                                : base;
      if (i % 4 == 1) held.arrays[0][1 + 2 * (random() % 60'000)] ^= std::byte{8};
      if (i % 4 == 2) std::fill(held.arrays[5].begin(), held.arrays[5].end(), std::byte{0});
      if (i % 4 == 3) held.arrays[5][random() % held.arrays[5].size()] ^= std::byte{1};
      const State before = held;
      const BlockMap map = held.map();
      const auto arrays = held.write();
      const Staging& staging = staged(encoded.bytes);
      UpdateDecoder decoder(map, arrays, receiver.verify, {}, kernels::cpu_kernels(),
                            receiver.writing);
      Status status = check_stream(decoder, staging, encoded.bytes.size());
      EXPECT_EQ(status.code(), Code::kWrongBase) << "case " << i << ": " << status.message();
      EXPECT_TRUE(held.arrays == before.arrays);
    }
  }
}

TEST(Classes, TheTargetIsKnownAsThat) {
  const State base = normal_state(kPieces, 15);
  const State target = stepped_state(base, 5e-6f, 16);
  const Encoded encoded = encode(base, target, with_classes());
  ASSERT_GT(count_sections(encoded.bytes, kTagClasses), 0u);
  for (const Receiver& receiver : kReceivers) {
    State held = target;
    const BlockMap map = held.map();
    const auto arrays = held.write();
    const Staging& staging = staged(encoded.bytes);
    UpdateDecoder decoder(map, arrays, receiver.verify, {}, kernels::cpu_kernels(),
                          receiver.writing);
    const Status status = check_stream(decoder, staging, encoded.bytes.size());
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(decoder.already_applied());
    EXPECT_TRUE(decoder.apply(staging).ok());
    EXPECT_TRUE(held.arrays == target.arrays);
  }
}

TEST(Classes, DamageIsNoWrongBase) {
  const State base = normal_state({{DataType::kBfloat16, 300'000}}, 17);
  const State target = stepped_state(base, 5e-6f, 18);
  const Encoded encoded = encode(base, target, with_classes());
  std::mt19937_64 random(19);
  for (int i = 0; i < test::by_tier(100, 5'000); ++i) {
    std::vector<std::byte> damaged = encoded.bytes;
    damaged[80 + random() % (damaged.size() - 80)] ^= static_cast<std::byte>(1 << (random() % 8));
    for (const Receiver& receiver : kReceivers) {
      State held = base;
      const BlockMap map = held.map();
      const auto arrays = held.write();
      UpdateDecoder decoder(map, arrays, receiver.verify, {}, kernels::cpu_kernels(),
                            receiver.writing);
      const Status status = check_stream(decoder, staged(damaged), damaged.size());
      ASSERT_EQ(status.code(), Code::kCorrupt) << "mutation " << i << ": " << status.message();
      ASSERT_TRUE(held.arrays == base.arrays);
    }
  }
}

// With its checksums mended: whatever it says, it is refused or does what the full check approves.
TEST(Classes, ForgedBlocksStayInside) {
  const State base = normal_state({{DataType::kBfloat16, 300'000}, {DataType::kBfloat16, 33}}, 20);
  const State target = stepped_state(base, 2e-5f, 21);
  const RawStream good = take_apart(encode(base, target, with_classes()).bytes);
  std::mt19937_64 random(22);
  for (int i = 0; i < test::by_tier(1'500, 100'000); ++i) {
    RawStream stream = good;
    Bytes& content = stream.content(i % 3 == 0 ? std::uint8_t{kTagClassTable} : kTagClasses);
    // Half of the time in the first bytes, where the counts are.
    const std::size_t at =
        random() % (i % 2 == 0 ? std::min<std::size_t>(content.size(), 40) : content.size());
    if (i % 7 == 0)
      content.resize(at);
    else
      content[at] = i % 5 == 0 ? static_cast<std::byte>(random())
                               : content[at] ^ static_cast<std::byte>(1 << (random() % 8));
    const Bytes bytes = put_together(stream);
    const Receiver& receiver = kReceivers[static_cast<std::size_t>(i) % 3];
    State held = base;
    const BlockMap map = held.map();
    const auto arrays = held.write();
    const Staging& staging = staged(bytes);
    UpdateDecoder decoder(map, arrays, i % 11 == 0 ? Verify::kOff : receiver.verify, {},
                          kernels::cpu_kernels(), receiver.writing);
    Status status = check_stream(decoder, staging, bytes.size());
    if (status.ok()) status = decoder.apply(staging);
    if (status.ok()) {
      EXPECT_TRUE(receiver.verify != Verify::kFull || i % 11 == 0 || held.arrays == target.arrays)
          << i;
    } else {
      EXPECT_NE(status.code(), Code::kInternalError) << i << ": " << status.message();
      EXPECT_TRUE(held.arrays == base.arrays) << i;
    }
  }
}

TEST(Classes, BringForwardIsTheTarget) {
  const State base = normal_state(kPieces, 23);
  const State target = stepped_state(base, 1e-5f, 24);
  State forward = base;
  const auto arrays = forward.write();
  EncodeOptions options = with_classes();
  options.bring_forward = arrays;
  const BlockMap map = base.map();
  const auto from = forward.read(), to = target.read();
  for (const bool keep : {false, true}) {
    UpdateEncoder encoder(map, from, to, options, kernels::cpu_kernels());
    VectorSink sink;
    while (!encoder.finished()) ASSERT_TRUE(encoder.step(kBlockElements, sink).ok());
    EXPECT_GT(count_sections(sink.bytes(), kTagClasses), 0u);
    EXPECT_TRUE(forward.arrays == target.arrays);
    if (keep) encoder.keep_forward();
  }
  EXPECT_TRUE(forward.arrays == target.arrays);
}

TEST(ClassTable, RoughCountsAreNear) {
  std::uint64_t last = 0;
  for (std::uint64_t count = 0; count <= kernels::kMaxRanks; count += 1 + count / 50) {
    const std::uint64_t value = RoughCount::of(count).value();
    EXPECT_LE(value, count);
    EXPECT_GE(value + value / 8, count);
    EXPECT_GE(value, last);
    last = value;
  }
}

TEST(ClassChoice, OneClassForChangesThatKnowNoExponent) {
  const State base = normal_state({{DataType::kBfloat16, 400'000}}, 25);
  const State target = changed_state(base, 0.01, Change::kUlp, 26);
  ClassSample sample;
  sample.add(base.arrays[0].data(), target.arrays[0].data(), 400'000);
  EXPECT_LE(choose_classes(sample, 400'000).table.cut.count, 2u);
  ClassSample steps;
  steps.add(base.arrays[0].data(), stepped_state(base, 5e-6f, 27).arrays[0].data(), 400'000);
  const ClassChoice choice = choose_classes(steps, 400'000);
  EXPECT_GE(choice.table.cut.count, 5u);
  EXPECT_EQ(choice.sample_bits, sample_bits(choice.table, steps))
      << "two ways to the same estimate";
}

}  // namespace
}  // namespace sparcl::codec
