// What is coded from a source is coded as from memory: the same bytes, whoever asks, for whatever
// part.

#include "src/codec/array_source.hpp"

#include <gtest/gtest.h>

#include "src/base/worker_pool.hpp"
#include "src/codec/block_mode.hpp"
#include "src/codec/change_rule.hpp"
#include "tests/codec/codec_support.hpp"

namespace sparcl::codec {
namespace {

class CopyingSource : public ArraySource {
 public:
  explicit CopyingSource(const State& state) : state_(state) {}
  void read(std::uint32_t array, std::uint64_t first, std::uint64_t count,
            std::byte* out) const override {
    const std::size_t width = element_bytes(state_.specs[array].datatype);
    ASSERT_LE((first + count) * width, state_.arrays[array].size());
    std::memcpy(out, state_.arrays[array].data() + first * width, count * width);
  }

 private:
  const State& state_;
};

// Large arrays, several small ones in a block, and one that lies across blocks.
State base_state() {
  return random_state({{DataType::kBfloat16, 600003},
                       {DataType::kBfloat16, 11},
                       {DataType::kBfloat16, 70000},
                       {DataType::kFloat32, 65536},
                       {DataType::kFloat32, 3},
                       {DataType::kUint8, 0},
                       {DataType::kInt8, 100001}},
                      1);
}

// From a source: the arrays whose bit is set.
struct Split {
  Split(const State& state, unsigned from_source) : source(state), arrays(state.read()) {
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      if ((from_source >> i) & 1) arrays[i] = nullptr;
    }
  }
  CopyingSource source;
  std::vector<const std::byte*> arrays;
};

struct Case {
  unsigned base;
  unsigned target;
};

Encoded encode_split(const State& base, const State& target, const Case& which,
                     EncodeOptions options, std::vector<std::byte*> forward = {}) {
  const Split from(base, which.base);
  const Split to(target, which.target);
  options.base_source = &from.source;
  options.target_source = &to.source;
  options.bring_forward = forward;
  const BlockMap map = target.map();
  UpdateEncoder encoder(map, from.arrays, to.arrays, options, kernels::cpu_kernels());
  VectorSink sink;
  Encoded encoded;
  while (encoded.status.ok() && !encoder.finished()) encoded.status = encoder.step(100000, sink);
  encoder.keep_forward();
  encoded.stats = encoder.stats();
  encoded.bytes = sink.bytes();
  return encoded;
}

struct ArraySources : testing::TestWithParam<Case> {
  const State base = base_state();

  void expect_alike(const State& target, const EncodeOptions& options) {
    const Encoded wanted = encode(base, target, options);
    ASSERT_TRUE(wanted.status.ok());
    const Encoded got = encode_split(base, target, GetParam(), options);
    ASSERT_TRUE(got.status.ok()) << got.status.message();
    ASSERT_TRUE(got.bytes == wanted.bytes);
    EXPECT_EQ(got.stats.changed, wanted.stats.changed);
    EXPECT_EQ(got.stats.base_hash, wanted.stats.base_hash);
    EXPECT_EQ(got.stats.target_hash, wanted.stats.target_hash);
  }
};

TEST_P(ArraySources, AreReadAsMemoryIs) {
  for (const double density : {0.0, 0.0003, 0.01, 0.3, 1.0}) {
    for (const Change change : {Change::kUlp, Change::kRandom}) {
      const State target = changed_state(base, density, change, 2);
      EncodeOptions options;
      expect_alike(target, options);
      options.with_state_hash = true;
      expect_alike(target, options);
      options.allow_classes = true;
      expect_alike(target, options);
      options.fewest_bytes = true;
      expect_alike(target, options);
    }
  }
}

TEST_P(ArraySources, OfEveryMode) {
  const State target = changed_state(base, 0.01, Change::kUlp, 3);
  for (const BlockMode* mode :
       {&kFlatMode, &kClassesMode, &kDenseMode, &kFlatGroupMode, &kBlockSparseMode}) {
    EncodeOptions options;
    options.with_state_hash = true;
    options.mode = mode;
    expect_alike(target, options);
  }
}

TEST_P(ArraySources, WithRulesAndLossyValues) {
  const State target = changed_state(base, 0.3, Change::kUlp, 4);
  const SubsetRule rule({true, false, true, true, true, true, false});
  EncodeOptions options;
  options.with_state_hash = true;
  options.rule = &rule;
  expect_alike(target, options);
  options.values.values = Values::kInt8;
  expect_alike(target, options);
}

TEST_P(ArraySources, WithHints) {
  const State target = changed_state(base, 0.001, Change::kRandom, 5);
  std::vector<std::uint64_t> indices;
  for (std::uint64_t i = 0; i < 600003; i += 7) indices.push_back(i);
  const std::vector<std::uint64_t> blocks(16, 0x5555555555555555);
  const ChangedHint few{.indices = indices, .blocks = {}, .block_elements = 0};
  const ChangedHint some{.indices = {}, .blocks = blocks, .block_elements = 100};
  const ChangedHint none{};
  const std::vector<const ChangedHint*> hints{&few, nullptr, &some, &some, &none, nullptr, nullptr};
  EncodeOptions options;
  options.with_state_hash = true;
  options.hints = hints;
  expect_alike(target, options);
}

TEST_P(ArraySources, ByWorkers) {
  const State target = changed_state(base, 0.01, Change::kUlp, 6);
  WorkerPool pool(3);
  EncodeOptions options;
  options.with_state_hash = options.allow_classes = true;
  options.workers = &pool;
  expect_alike(target, options);
}

TEST_P(ArraySources, BringTheBaseForward) {
  if (GetParam().base != 0) return;  // the base is what is written to
  const State target = changed_state(base, 0.02, Change::kUlp, 7);
  State held = base;
  EncodeOptions options;
  options.with_state_hash = options.allow_classes = true;
  const Encoded got = encode_split(held, target, GetParam(), options, held.write());
  ASSERT_TRUE(got.status.ok());
  EXPECT_TRUE(held.arrays == target.arrays);
}

INSTANTIATE_TEST_SUITE_P(Which, ArraySources,
                         testing::Values(Case{0, 0}, Case{0x7f, 0}, Case{0, 0x7f}, Case{0x7f, 0x7f},
                                         Case{0x02, 0x05}, Case{0x11, 0x4a}),
                         [](const auto& test) {
                           return "base_" + std::to_string(test.param.base) + "_target_" +
                                  std::to_string(test.param.target);
                         });

TEST(ArraySource, WithoutABaseBlocksTravelWhole) {
  const State target =
      random_state({{DataType::kBfloat16, 200000}, {DataType::kFloat32, 70001}}, 8);
  const Split to(target, 1);
  const std::vector<const std::byte*> nothing(2, nullptr);
  EncodeOptions options;
  options.with_state_hash = true;
  options.target_source = &to.source;
  const BlockMap map = target.map();
  UpdateEncoder encoder(map, nothing, to.arrays, options, kernels::cpu_kernels());
  VectorSink sink;
  while (!encoder.finished()) ASSERT_TRUE(encoder.step(1 << 20, sink).ok());
  State held = random_state(target.specs, 9);
  ASSERT_TRUE(decode(sink.bytes(), held, Verify::kFull).ok());
  EXPECT_TRUE(held.arrays == target.arrays);
}

}  // namespace
}  // namespace sparcl::codec
